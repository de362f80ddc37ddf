import { AsyncLocalStorage } from 'node:async_hooks';
import { chance } from './chance.ts';
import type { CommittedWrite } from './commit-order.ts';
import { RIGHT_PATTERNS, WRONG_PATTERNS, type Ledger } from './patterns.ts';
import type { Holder } from './holders.ts';
import type { Record } from './record.ts';

/** A store under stress. Its resources are there, each with the writer `start`. */
export interface StressedStore {
  readonly workers: number;
  /** Writes with a token in one of the right ways. */
  right(holder: Holder): Promise<void>;
  /** The ways that are wrong, each on resources with its name: the judge must see it. */
  readonly wrong: { readonly [way: string]: (holder: Holder) => Promise<void> };
  /** Deletes what a clock an hour ahead would: rows with smaller tokens. @returns how many */
  prune(before: string): Promise<number>;
  /** Ends the server, or the connections of the writers, without warning. */
  crash(): Promise<void>;
  /** Committed writes, in the order of commits. */
  history(): Promise<readonly CommittedWrite[]>;
  close(): Promise<void>;
}

const RIGHT = Object.values(RIGHT_PATTERNS);

export const runRight = <Tx>(ledger: Ledger<Tx>, holder: Holder): Promise<void> =>
  chance.pick(RIGHT)(ledger, holder);

export const wrongWays = <Tx>(ledger: Ledger<Tx>): StressedStore['wrong'] => ({
  noFence: (holder) => WRONG_PATTERNS.noFence(ledger, holder),
  readWithoutClaim: (holder) => WRONG_PATTERNS.readWithoutClaim(ledger, holder),
});

/** A single one for all calls: every instance that was ever used costs each promise of the process some time. */
const current = new AsyncLocalStorage<{ writer?: string }>();

/** The ledger, with each write noted that succeeded for its caller. */
export function noting<Tx>(ledger: Ledger<Tx>, record: Record): Ledger<Tx> {
  const noted = <Result>(transaction: () => Promise<Result>): Promise<Result> => {
    const made: { writer?: string } = {};
    return current.run(made, async () => {
      const result = await transaction();
      if (made.writer) record.acknowledged.add(made.writer);
      return result;
    });
  };
  return {
    ...ledger,
    write: async (tx, holder, readFrom) => {
      const writer = await ledger.write(tx, holder, readFrom);
      const made = current.getStore();
      if (made) made.writer = writer;
      return writer;
    },
    fenced: (holder, work) => noted(() => ledger.fenced(holder, work)),
    ownTransaction: (work) => noted(() => ledger.ownTransaction(work)),
  };
}
