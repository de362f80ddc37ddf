import type { Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';
import type { CampaignWorker } from '../worker/campaign-worker.ts';

// Holders that stop, stall, die, or have a wrong clock. The servers are healthy throughout.

const stopped: Schedule = {
  name: 'worker stopped',
  what: 'workers are stopped (SIGSTOP) past the ttl, wherever they are, and go on',
  async play(stage) {
    for (let round = 0; round < 3; round += 1) {
      const [worker] = stage.someWorkers(1);
      await stage.stopWorker(worker!, stage.ttlMs * stage.random.between(1.1, 1.6));
      await stage.pause(200);
    }
  },
};

/** Three holders, one after another, and what they do then must have met the fence. */
function paused(
  name: string,
  what: string,
  pause: (stage: Stage, worker: CampaignWorker) => Promise<void>,
): Schedule {
  return {
    name,
    what,
    quick: true,
    load: { keys: 2, setShare: 0 },
    async play(stage) {
      for (let round = 0; round < 3; round += 1) {
        await pause(stage, stage.someWorkers(1)[0]!);
        await stage.pause(200);
      }
    },
    withoutEffect: ({ measures }) => {
      if (measures.unfencedStaleWrites === 0) return 'no stale write reached the unfenced records';
      return measures.fencedRefusals === 0 ? 'the fence refused nothing' : undefined;
    },
  };
}

const stoppedBetweenCheckAndWrite = paused(
  'stopped between check and write',
  'a holder is told that it holds its lock, its process stops past the ttl, goes on and writes',
  (stage, worker) => stage.stopBetweenCheckAndWrite(worker, stage.ttlMs * 1.5),
);

const blockedBetweenCheckAndWrite = paused(
  'event loop blocked',
  'a holder is told that it holds its lock, its event loop is blocked past the ttl, goes on and writes',
  async (stage, worker) => {
    const durationMs = stage.ttlMs * stage.random.between(1.2, 1.6);
    stage.command(worker, { type: 'block-between-check-and-write', durationMs });
    await stage.pause(durationMs + 500);
  },
);

const killed: Schedule = {
  name: 'worker killed',
  what: 'workers are killed (kill -9) at any moment, and new ones take their place',
  quick: true,
  async play(stage) {
    for (let round = 0; round < 6; round += 1) {
      const [worker] = stage.someWorkers(1);
      await stage.killWorker(worker!, stage.random.between(0, 300));
      await stage.pause(stage.random.between(200, 600));
    }
  },
};

const HOUR_MS = 3_600_000;

const wallClocks: Schedule = {
  name: 'clocks of workers jump',
  what: 'the wall clocks of workers are wrong by an hour, two days or ten years, to both sides, and come back',
  // Many records, so that a worker with a wrong clock meets some that it knows nothing of.
  load: { keys: 40 },
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    const skews = [1, -1, 48, -48, 87_600, -87_600].map((hours) => hours * HOUR_MS);
    for (const skewMs of skews) {
      const [worker] = stage.someWorkers(1);
      stage.note(`the wall clock of ${worker!.name} jumps by ${skewMs} ms`);
      stage.command(worker!, { type: 'set-wall-clock', skewMs });
      await stage.pause(500);
      stage.command(worker!, { type: 'set-wall-clock', skewMs: 0 });
      await stage.pause(200);
    }
  },
};

export const workerSchedules: readonly Schedule[] = [
  stopped,
  stoppedBetweenCheckAndWrite,
  blockedBetweenCheckAndWrite,
  killed,
  wallClocks,
];
