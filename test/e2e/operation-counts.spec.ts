import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Program } from '../support/program.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import type { CountedName } from './counts/counted-scenarios.ts';
import type { Counts, CountingQuestion, CountingSettings } from './counts/counting-process.ts';

// Costs of an operation, in counts: they are the same on every machine, where times are not. A change that makes one of
// them worse fails here; one that makes it better lowers the bar.

type Bar = Omit<Counts, 'allocated'> & {
  /** Kilobytes; a quarter more than were measured, because the compiler of V8 decides, too. */
  readonly allocatedKb: number;
  /** Commands, messages and writes may be fewer, because timers decide, too. */
  readonly isLimit?: true;
};

/**
 * Bars of one round on all servers together. Scripts, commands and writes must be exactly these, bytes at most a fiftieth more.
 */
const BARS: readonly (readonly [CountedName, nodes: number, Bar])[] = [
  ['acquire and release', 1, bar(2, 6, 2, 389, 8, 20)],
  ['acquire and release', 5, bar(10, 30, 10, 1_945, 40, 42)],
  ['withLock', 1, bar(2, 6, 2, 389, 8, 24)],
  ['withLock', 5, bar(10, 30, 10, 1_945, 40, 42)],
  // Releases leave with the next vote, where they would be 20 messages and 100.
  ['ten times withLock in a row', 1, { ...bar(12, 83, 12, 3_700, 56, 200), isLimit: true }],
  ['ten times withLock in a row', 5, { ...bar(60, 415, 60, 18_500, 280, 400), isLimit: true }],
  ['withLock that confirms its release', 5, bar(10, 30, 10, 1_945, 40, 45)],
  ['withLock with a joined call', 1, bar(2, 6, 2, 389, 8, 29)],
  ['withLock with a joined call', 5, bar(10, 30, 10, 1_945, 40, 48)],
  ['64 callers with keys of their own', 1, bar(5, 261, 5, 13_828, 24, 730)],
  ['64 callers with keys of their own', 5, bar(25, 1_305, 25, 69_140, 120, 1_090)],
  // A hand-over is one message for each node; on five, votes of the one before are still out for some of them.
  ['128 callers for one key', 1, { ...bar(140, 768, 140, 49_792, 1_024, 2_550), isLimit: true }],
  ['128 callers for one key', 5, { ...bar(950, 3_840, 950, 234_990, 4_104, 5_200), isLimit: true }],
  // A hand-over does not wait, either, for what those who had the key do next.
  ['16 callers for one key, then busy', 1, { ...bar(17, 96, 17, 6_224, 128, 410), isLimit: true }],
  ['one lock, extended once', 5, bar(5, 25, 5, 1_060, 60, 0)],
  ['100 locks, extended once', 5, { ...bar(60, 3_100, 60, 65_000, 6_300, 0), isLimit: true }],
];

function bar(
  messages: number,
  calls: number,
  writes: number,
  received: number,
  sent: number,
  allocatedKb: number,
): Bar {
  return { messages, calls, writes, received, sent, allocatedKb };
}

/** Counts that are above their bar, or beside it. */
function worse(counts: Counts, { allocatedKb, isLimit, ...limits }: Bar): string[] {
  const limitsOfAll = { ...limits, allocated: allocatedKb * 1_000 };
  const exact = isLimit ? [] : ['messages', 'calls', 'writes'];
  return (Object.keys(limitsOfAll) as (keyof Counts)[])
    .filter((name) => {
      const limit = limitsOfAll[name];
      return exact.includes(name) ? counts[name] !== limit : counts[name] > limit * 1.02;
    })
    .map((name) => `${name}: ${counts[name]}, the bar is ${limitsOfAll[name]}`);
}

describe('the cost of an operation', () => {
  const servers = useRedisServers(5, { own: true });
  let counting: Program<CountingQuestion>;

  beforeAll(async () => {
    const settings: CountingSettings = { ports: servers.map(({ port }) => port) };
    counting = new Program<CountingQuestion>('test/e2e/counts/counting-process.ts', settings);
    await counting.first();
  });
  afterAll(() => counting.kill());

  it.each(BARS)('is not above the bar of %s, nodes: %i', async (name, nodes, limits) => {
    const counts = await counting.ask<Counts>({ name, nodes });
    expect(worse(counts, limits)).toEqual([]);
    expect(counts.messages).toBeGreaterThan(0);
  });
});
