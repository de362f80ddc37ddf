import type { Schedule } from '../run/schedule.ts';

// The clocks of servers jump: to a lock that is an early or a late end. Real servers, under libfaketime.

const movable: Pick<Schedule, 'servers'> = { servers: { movableClock: true } };
const FAR_MS = 5_000;
/** An extension interval and a node timeout. */
const OVERLAP_MS = 1_000 / 3 + 100;

export const serverClockSchedules: readonly Schedule[] = [
  {
    name: 'clocks of a minority jump ahead',
    what: 'the clocks of two servers jump ahead by 5 s, then those of two others: holders repair in between',
    ...movable,
    quick: true,
    load: { longShare: 0.2 },
    // Seen once in some dozens of runs: a grant beside votes of rivals has a bare quorum until its first extension.
    limits: { overlapMs: OVERLAP_MS, overlaps: 1 },
    async play(stage) {
      const pairs = stage.twoPairs();
      await stage.pause(500);
      for (const offsetMs of [FAR_MS, 2 * FAR_MS]) {
        for (const pair of pairs) {
          await stage.moveClocks(pair, offsetMs);
          // Longer than an extension interval and its answer.
          await stage.pause(800);
        }
      }
    },
  },
  {
    name: 'clocks of a majority jump ahead',
    what: 'the clocks of three servers jump ahead by 5 s at once: the one case in which two holders may overlap, for up to an extension interval',
    ...movable,
    // Callers that try again and again are faster than the holder, who repairs with its next extension.
    load: {
      keys: 2,
      waitsMs: [0, 0, 0, 300],
      // Two long holds beside each other are more than the limit, if the first holder is not notified.
      holdMs: [600, 900],
      longShare: 0.3,
      // The holder of a lock that is not extended is notified of nothing before its validity ends.
      unextendedShare: 0,
      setShare: 0,
      pauseMs: 10,
    },
    limits: { overlapMs: OVERLAP_MS },
    async play(stage) {
      await stage.pause(500);
      for (let round = 1; round <= 6; round += 1) {
        await stage.moveClocks(stage.someServers(3), round * FAR_MS);
        await stage.pause(1_000);
      }
    },
    withoutEffect: ({ measures }) =>
      measures.longestOverlapMs > 0 ? undefined : 'no two holders overlapped',
  },
  {
    name: 'clocks of a minority jump back',
    what: 'the clocks of two servers jump back by 5 s: locks stay there longer than they should',
    ...movable,
    settleMs: FAR_MS + 1_500,
    async play(stage) {
      await stage.pause(500);
      await stage.moveClocks(stage.someServers(2), -FAR_MS);
      await stage.pause(3_500);
    },
  },
  {
    name: 'all clocks wander',
    what: 'one server after another jumps by up to 0.4 s to either side, each 0.7 s',
    ...movable,
    load: { longShare: 0.1 },
    async play(stage) {
      await stage.pause(500);
      for (let round = 0; round < 8; round += 1) {
        await stage.moveClocks(stage.someServers(1), Math.round(stage.random.between(-400, 400)));
        await stage.pause(700);
      }
    },
  },
];
