import type { Schedule } from '../run/schedule.ts';

// The clocks of servers jump: to a lock that is an early or a late end. Real servers, under libfaketime.

const movable: Pick<Schedule, 'servers'> = { servers: { movableClock: true } };
const FAR_MS = 5_000;

/** Locks outlive the run where a clock went back. */
const SETTLE_BACKWARD_MS = FAR_MS + 1_500;

const minorityForward: Schedule = {
  name: 'clocks of a minority jump ahead',
  what: 'the clocks of two servers jump ahead by 5 s, then those of two others: holders repair in between',
  ...movable,
  quick: true,
  load: { longShare: 0.2 },
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    const order = stage.someServers(4);
    await stage.pause(500);
    for (let round = 1; round <= 2; round += 1) {
      for (const pair of [order.slice(0, 2), order.slice(2)]) {
        await Promise.all(pair.map((index) => stage.servers[index]!.moveClock(round * FAR_MS)));
        // Longer than an extension interval and its answer.
        await stage.pause(800);
      }
    }
  },
};

const majorityForward: Schedule = {
  name: 'clocks of a majority jump ahead',
  what: 'the clocks of three servers jump ahead by 5 s at once: the one case in which two holders may overlap, for up to an extension interval',
  ...movable,
  // Who tries again and again is faster than the holder, who repairs with its next extension.
  load: {
    callers: 4,
    keys: 2,
    waitsMs: [0, 0, 0, 300],
    holdMs: [200, 700],
    longShare: 0.3,
    // A lock that is not extended hears of nothing before its validity ends.
    unextendedShare: 0,
    setShare: 0,
    pauseMs: 10,
  },
  limits: { overlapMs: 1_000 / 3 + 100 },
  async play(stage) {
    await stage.pause(500);
    for (let round = 1; round <= 4; round += 1) {
      const jumping = stage.someServers(3);
      await Promise.all(jumping.map((index) => stage.servers[index]!.moveClock(round * FAR_MS)));
      await stage.pause(1_000);
    }
  },
  withoutEffect: ({ measures }) =>
    measures.longestOverlapMs > 0 ? undefined : 'no two holders overlapped',
};

const backward: Schedule = {
  name: 'clocks of a minority jump back',
  what: 'the clocks of two servers jump back by 5 s: locks stay there longer than they should',
  ...movable,
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  settleMs: SETTLE_BACKWARD_MS,
  async play(stage) {
    const pair = stage.someServers(2);
    await stage.pause(500);
    await Promise.all(pair.map((index) => stage.servers[index]!.moveClock(-FAR_MS)));
    await stage.pause(3_500);
  },
};

const everywhere: Schedule = {
  name: 'all clocks wander',
  what: 'one server after another jumps by up to 0.4 s to either side, each 0.7 s',
  ...movable,
  load: { longShare: 0.1 },
  async play(stage) {
    for (let round = 0; round < 8; round += 1) {
      const [index] = stage.someServers(1);
      await stage.servers[index!]!.moveClock(Math.round(stage.random.between(-400, 400)));
      await stage.pause(700);
    }
  },
};

export const serverClockSchedules: readonly Schedule[] = [
  minorityForward,
  majorityForward,
  backward,
  everywhere,
];
