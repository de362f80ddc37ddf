import type { CampaignEvent } from '../campaign-event.ts';
import type { Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';
import type { WorkerProcess } from '../run/worker-process.ts';

// Processes that stop, stall, die, have a wrong clock, or want too much at once. The servers are healthy throughout.

/** Three holders, one after another, and what they do then must have met the fence. */
function paused(
  name: string,
  what: string,
  pause: (stage: Stage, worker: WorkerProcess) => Promise<void>,
): Schedule {
  return {
    name,
    what,
    quick: true,
    load: { keys: 2, setShare: 0 },
    async play(stage) {
      for (let round = 0; round < 3; round += 1) {
        await pause(stage, stage.aWorker());
        await stage.pause(200);
      }
    },
    withoutEffect: ({ measures }) => {
      if (measures.unfencedStaleWrites === 0) return 'no stale write reached the unfenced records';
      return measures.fencedRefusals === 0 ? 'the fence refused nothing' : undefined;
    },
  };
}

const BLOCKS = 24;

/** Blocked for so long that votes were due meanwhile, which were there when the process looked again. */
const blockedDuringVotes: Schedule = {
  name: 'event loop blocked during votes',
  what: 'the event loops of workers are blocked for 150 to 400 ms, at a node timeout of 100 ms, while they wait for votes: no caller takes that for an outage',
  quick: true,
  // Callers have no second try.
  // And a core is left for the answers: on a machine that has none to spare they are really late.
  load: { callers: 3, keys: 500, waitsMs: [0], holdMs: [0, 0], longShare: 0, pauseMs: 10 },
  limits: { idleMs: undefined },
  async play(stage) {
    for (let round = 0; round < BLOCKS; round += 1) {
      const durationMs = stage.random.between(150, 400);
      await stage.aWorker().ask({ type: 'block-during-votes', durationMs });
      await stage.pause(stage.random.between(20, 150));
    }
  },
  withoutEffect: ({ history }) => {
    const blocked = history.filter((event) => isLongStall(event)).length;
    return blocked < BLOCKS ? `only ${blocked} stalls of workers` : undefined;
  },
};

function isLongStall(event: CampaignEvent): boolean {
  return (
    event.type === 'stalled' && event.process.startsWith('worker') && event.to - event.from > 150
  );
}

const BURST = 60_000;

const burst: Schedule = {
  name: 'burst of free keys',
  what: `one process asks for ${BURST} free keys at once, on three servers: it gets them all within its wait of 12 s`,
  nodes: 3,
  // Callers beside it in this process have to stand in line behind it.
  load: { callers: 0 },
  options: { nodeTimeout: 330 },
  limits: { nodeTimeoutMs: 330, idleMs: undefined },
  // Promise of this schedule is a time for a fixed amount of work, which takes all cores.
  alone: true,
  async play(stage) {
    await stage.everyWorker((worker) => worker.ask({ type: 'use', key: worker.place, waitMs: 0 }));
    const outcomes = await stage
      .aWorker()
      .ask<Record<string, number>>({ type: 'burst', keys: BURST, waitMs: 12_000 });
    stage.promise(outcomes['granted'] === BURST, JSON.stringify(outcomes));
  },
};

const HOUR_MS = 3_600_000;

export const workerSchedules: readonly Schedule[] = [
  {
    name: 'worker stopped',
    what: 'workers are stopped (SIGSTOP) past the ttl, wherever they are, and go on',
    async play(stage) {
      for (let round = 0; round < 3; round += 1) {
        await stage.stopWorker(stage.aWorker(), stage.ttlMs * stage.random.between(1.1, 1.6));
        await stage.pause(200);
      }
    },
  },
  paused(
    'stopped between check and write',
    'a holder learns that it holds its lock, its process stops past the ttl, goes on and writes',
    (stage, worker) => stage.stopBetweenCheckAndWrite(worker, stage.ttlMs * 1.5),
  ),
  paused(
    'event loop blocked',
    'a holder learns that it holds its lock, its event loop is blocked past the ttl, goes on and writes',
    async (stage, worker) => {
      const durationMs = stage.ttlMs * stage.random.between(1.2, 1.6);
      await worker.ask({ type: 'block-between-check-and-write', durationMs });
      await stage.pause(durationMs + 500);
    },
  ),
  blockedDuringVotes,
  burst,
  {
    name: 'worker killed',
    what: 'workers are killed (kill -9) at any moment, and new ones take their place',
    quick: true,
    async play(stage) {
      for (let round = 0; round < 6; round += 1) {
        await stage.killWorker(stage.aWorker(), stage.random.between(0, 300));
        await stage.pause(stage.random.between(200, 600));
      }
    },
  },
  {
    name: 'clocks of workers jump',
    what: 'the wall clocks of workers are wrong by an hour, twenty hours, two days or ten years, to both sides, and come back',
    // Many records, so that a worker with a wrong clock meets some that it knows nothing of.
    load: { keys: 40 },
    async play(stage) {
      const skews = [1, -1, 20, -20, 48, -48, 87_600, -87_600].map((hours) => hours * HOUR_MS);
      for (const skewMs of skews) {
        const worker = stage.aWorker();
        stage.note(`the wall clock of ${worker.name} jumps by ${skewMs} ms`);
        await worker.ask({ type: 'set-wall-clock', skewMs });
        await stage.pause(500);
        await worker.ask({ type: 'set-wall-clock', skewMs: 0 });
        await stage.pause(200);
      }
    },
  },
];
