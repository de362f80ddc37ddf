import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Program } from '../support/program.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import type { CountedName } from './counts/counted-scenarios.ts';
import type { Counts, CountingQuestion, CountingSettings } from './counts/counting-process.ts';

// Costs of an operation, in counts: they are the same on every machine, where times are not. A change that makes one of
// them worse fails here; one that makes it better lowers the bar. Nothing that a timer sends is among them: see counting-process.

/** Bars of one round on all servers together. Scripts, commands and writes must be exactly these, bytes at most a fiftieth more. */
const BARS: readonly (readonly [CountedName, nodes: number, Counts])[] = [
  ['acquire and release', 1, bar(2, 6, 2, 377, 8)],
  ['acquire and release', 5, bar(10, 30, 10, 1_885, 40)],
  ['withLock', 1, bar(2, 6, 2, 377, 8)],
  ['withLock', 5, bar(10, 30, 10, 1_885, 40)],
  // Releases leave with the next vote, where they would be 20 messages and 100.
  ['ten times withLock in a row', 1, bar(11, 60, 11, 3_275, 44)],
  ['ten times withLock in a row', 5, bar(55, 300, 55, 16_375, 220)],
  ['withLock that confirms its release', 5, bar(10, 30, 10, 1_885, 40)],
  ['withLock with a joined call', 1, bar(2, 6, 2, 377, 8)],
  ['withLock with a joined call', 5, bar(10, 30, 10, 1_885, 40)],
  ['64 callers with keys of their own', 1, bar(5, 384, 5, 13_823, 20)],
  ['64 callers with keys of their own', 5, bar(25, 1_920, 25, 69_115, 100)],
  // A hand-over is one message for each node.
  ['128 callers for one key', 1, bar(129, 768, 129, 41_271, 516)],
  ['128 callers for one key', 5, bar(645, 3_840, 645, 206_355, 2_580)],
  // A hand-over does not wait, either, for what those who had the key do next.
  ['16 callers for one key, then busy', 1, bar(17, 96, 17, 5_207, 68)],
  ['one lock, extended once', 5, bar(5, 25, 5, 1_000, 60)],
  ['100 locks, extended once', 5, bar(20, 2_500, 20, 62_235, 6_095)],
];

function bar(
  messages: number,
  calls: number,
  writes: number,
  received: number,
  sent: number,
): Counts {
  return { messages, calls, writes, received, sent };
}

/** Counts that are above their bar, or beside it. */
function worse(counts: Counts, limits: Counts): string[] {
  const exact = ['messages', 'calls', 'writes'];
  return (Object.keys(limits) as (keyof Counts)[])
    .filter((name) => {
      const limit = limits[name];
      return exact.includes(name) ? counts[name] !== limit : counts[name] > limit * 1.02;
    })
    .map((name) => `${name}: ${counts[name]}, the bar is ${limits[name]}`);
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
  });
});
