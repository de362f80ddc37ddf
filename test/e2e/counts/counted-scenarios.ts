import { setTimeout as sleep } from 'node:timers/promises';
import type { Lock } from '../../../lib/core/lock.ts';
import type { Redlock } from '../../../lib/core/redlock.ts';

export interface Surroundings {
  readonly redlock: Redlock;
  /** A key that was never used, always of the same length. */
  readonly newKey: () => string;
  /** Resolves when every request that was sent has been answered. */
  readonly settled: () => Promise<void>;
  /** The locks that are held around all rounds. */
  readonly held: readonly Lock[];
}

export interface CountedScenario {
  readonly rounds: number;
  /** Number of locks that are held around all rounds, whose acquire and release are not counted. */
  readonly held?: number;
  /** Runs one round. */
  run(surroundings: Surroundings): Promise<unknown>;
}

function times<Value>(count: number, make: () => Promise<Value>): Promise<Value[]> {
  return Promise.all(Array.from({ length: count }, make));
}

/** Scenario of locks that are held all the time. */
function extension(count: number): CountedScenario {
  const run = async ({ held }: Surroundings) => {
    // A server that was asked in the same millisecond has nothing to make longer, and calls a command less.
    await sleep(5);
    await Promise.all(held.map((lock) => lock.extend()));
  };
  return { rounds: 5, held: count, run };
}

/** Nothing changes it: who waits for that stops the process. */
const STOPPED = new Int32Array(new SharedArrayBuffer(4));

/** Scenarios that are counted, by name. */
export const COUNTED = {
  'acquire and release': {
    rounds: 100,
    run: async ({ redlock, newKey }) => (await redlock.acquire(newKey())).release(),
  },
  withLock: {
    rounds: 100,
    run: ({ redlock, newKey }) => redlock.withLock(newKey(), () => undefined),
  },
  'ten times withLock in a row': {
    rounds: 30,
    run: async ({ redlock, newKey }) => {
      for (let call = 0; call < 10; call += 1) await redlock.withLock(newKey(), () => undefined);
    },
  },
  'withLock that confirms its release': {
    rounds: 100,
    run: ({ redlock, newKey }) =>
      redlock.withLock(newKey(), () => undefined, { release: 'confirmed' }),
  },
  'withLock with a joined call': {
    rounds: 100,
    run: ({ redlock, newKey }) => {
      const key = newKey();
      const joined = () => redlock.withLock(key, () => undefined, { nested: 'join' });
      return redlock.withLock(key, joined);
    },
  },
  '64 callers with keys of their own': {
    rounds: 5,
    run: async ({ redlock, newKey, settled }) => {
      const locks = await times(64, () => redlock.acquire(newKey()));
      await settled();
      await Promise.all(locks.map((lock) => lock.release()));
    },
  },
  '128 callers for one key': {
    rounds: 3,
    run: ({ redlock, newKey }) => {
      const key = newKey();
      return times(128, () => redlock.withLock(key, () => undefined));
    },
  },
  '16 callers for one key, then busy': {
    rounds: 3,
    run: ({ redlock, newKey }) => {
      const key = newKey();
      return times(16, async () => {
        await redlock.withLock(key, () => undefined);
        Atomics.wait(STOPPED, 0, 0, 3);
      });
    },
  },
  'one lock, extended once': extension(1),
  '100 locks, extended once': extension(100),
} satisfies Record<string, CountedScenario>;

export type CountedName = keyof typeof COUNTED;
