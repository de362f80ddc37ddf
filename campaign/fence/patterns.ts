import type { Fence } from '../../lib/fencing/index.ts';
import type { Holder } from './holders.ts';

/** A table that writers read and change, in one database. `Tx`: what its queries run on. */
export interface Ledger<Tx> {
  readonly fence: Fence<Tx>;
  /** Reads who wrote the resource last: in a transaction, or outside without one. */
  read(holder: Holder, tx?: Tx): Promise<string>;
  /** Resolves with the identity of the write. */
  write(tx: Tx, holder: Holder, readFrom: string): Promise<string>;
  /** The fence's transaction, at the isolation level of this run. */
  fenced<Result>(holder: Holder, work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /** A transaction as users write it by hand, retried when the database asks for it. */
  ownTransaction(work: (tx: Tx) => Promise<void>): Promise<void>;
}

/** Runs `transaction` again as long as it fails with an error that a retry cures. */
export async function retried(
  transaction: () => Promise<void>,
  isCurable: (error: unknown) => boolean,
): Promise<void> {
  for (;;) {
    try {
      return await transaction();
    } catch (error) {
      if (!isCurable(error)) throw error;
    }
  }
}

/** These are right on every database: no violation, ever. */
export const RIGHT_PATTERNS = {
  /** Reads inside first, and then goes on from what it has in memory. */
  async fencedTransaction<Tx>(ledger: Ledger<Tx>, holder: Holder): Promise<void> {
    let known: string | undefined;
    for (let count = 0; count < holder.writes; count += 1) {
      known = await ledger.fenced(holder, async (tx) => {
        await holder.nap();
        const from: string = known ?? (await ledger.read(holder, tx));
        await holder.nap();
        return ledger.write(tx, holder, from);
      });
      await holder.nap();
    }
  },

  /** Claims, reads outside any transaction, then writes in fenced ones. */
  async claimThenTransaction<Tx>(ledger: Ledger<Tx>, holder: Holder): Promise<void> {
    await ledger.fence.claim(holder.token);
    await holder.nap();
    let known = await ledger.read(holder);
    for (let count = 0; count < holder.writes; count += 1) {
      await holder.nap();
      const from = known;
      known = await ledger.fenced(holder, (tx) => ledger.write(tx, holder, from));
    }
  },

  /** The user's own transaction, whose first statement advances the fence. */
  advanceFirst: <Tx>(ledger: Ledger<Tx>, holder: Holder): Promise<void> =>
    ledger.ownTransaction(async (tx) => {
      await ledger.fence.advance(tx, holder.token);
      await holder.nap();
      const from = await ledger.read(holder, tx);
      await holder.nap();
      await ledger.write(tx, holder, from);
    }),
};

/** These are wrong on every database: the same judge must find violations. What the kit fails is not repeated here. */
export const WRONG_PATTERNS = {
  noFence: <Tx>(ledger: Ledger<Tx>, holder: Holder): Promise<void> =>
    ledger.ownTransaction(async (tx) => {
      const from = await ledger.read(holder, tx);
      await holder.nap();
      await ledger.write(tx, holder, from);
    }),

  /** The right transaction, but what it writes was read before the token reached the database. */
  async readWithoutClaim<Tx>(ledger: Ledger<Tx>, holder: Holder): Promise<void> {
    const from = await ledger.read(holder);
    await holder.nap();
    await ledger.fenced(holder, (tx) => ledger.write(tx, holder, from));
  },
};
