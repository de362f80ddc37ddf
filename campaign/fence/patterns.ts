import type { Fence } from '../../lib/fencing/index.ts';
import type { Session } from './holders.ts';

/** A table that writers read and change, in one database. `Tx`: what its queries run on. */
export interface Ledger<Tx> {
  readonly fence: Fence<Tx>;
  /** Reads who wrote the resource last: in a transaction, or outside without one. */
  read(session: Session, tx?: Tx): Promise<string>;
  /** Resolves with the identity of the write. */
  write(tx: Tx, session: Session, readFrom: string): Promise<string>;
  /** The fence's transaction, at the isolation level of this run. */
  fenced<Result>(session: Session, work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /** A transaction as users write it by hand, retried when the database asks for it. */
  ownTransaction(work: (tx: Tx) => Promise<void>): Promise<void>;
}

/** A way to write under a token, for one session. */
export type Pattern<Tx, L extends Ledger<Tx> = Ledger<Tx>> = (
  ledger: L,
  session: Session,
) => Promise<void>;

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
  async fencedTransaction<Tx>(ledger: Ledger<Tx>, session: Session): Promise<void> {
    let known: string | undefined;
    for (let count = 0; count < session.writes; count += 1) {
      known = await ledger.fenced(session, async (tx) => {
        await session.nap();
        const from: string = known ?? (await ledger.read(session, tx));
        await session.nap();
        return ledger.write(tx, session, from);
      });
      await session.nap();
    }
  },

  /** Claims, reads outside any transaction, then writes in fenced ones. */
  async claimThenTransaction<Tx>(ledger: Ledger<Tx>, session: Session): Promise<void> {
    await ledger.fence.claim(session.token);
    await session.nap();
    let known = await ledger.read(session);
    for (let count = 0; count < session.writes; count += 1) {
      await session.nap();
      const from = known;
      known = await ledger.fenced(session, (tx) => ledger.write(tx, session, from));
    }
  },

  /** The user's own transaction, whose first statement advances the fence. */
  advanceFirst: <Tx>(ledger: Ledger<Tx>, session: Session): Promise<void> =>
    ledger.ownTransaction(async (tx) => {
      await ledger.fence.advance(tx, session.token);
      await session.nap();
      const from = await ledger.read(session, tx);
      await session.nap();
      await ledger.write(tx, session, from);
    }),
};

/** These are wrong on every database: the same judge must find violations. What the kit fails is not repeated here. */
export const WRONG_PATTERNS = {
  noFence: <Tx>(ledger: Ledger<Tx>, session: Session): Promise<void> =>
    ledger.ownTransaction(async (tx) => {
      const from = await ledger.read(session, tx);
      await session.nap();
      await ledger.write(tx, session, from);
    }),

  /** The right transaction, but what it writes was read before the token reached the database. */
  async readWithoutClaim<Tx>(ledger: Ledger<Tx>, session: Session): Promise<void> {
    const from = await ledger.read(session);
    await session.nap();
    await ledger.fenced(session, (tx) => ledger.write(tx, session, from));
  },
};
