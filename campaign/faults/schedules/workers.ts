import { placeOf } from '../judge/processes.ts';
import type { Evidence, Schedule } from '../schedule.ts';
import {
  freeze,
  harmAll,
  inOrder,
  killWorker,
  links,
  restart,
  someWorker,
  stopWorker,
  type Harm,
} from '../scripts.ts';
import { TTL_MS, type Stage } from '../stage.ts';
import type { WorkerProcess } from '../worker/worker-process.ts';
import { NO_IDLE_LIMIT } from './evidence.ts';

// Processes that stop, stall, die, have a wrong clock, or want too much at once, and then everything at once, by chance.

const fenceNeeded: Schedule['withoutEffect'] = ({
  measures: { unfencedStaleWrites, fencedRefusals },
}) => (unfencedStaleWrites > 0 && fencedRefusals > 0 ? undefined : 'no stale write was refused');

const stopBeforeWrite =
  (least: number, most: number): Harm<WorkerProcess> =>
  (stage, worker) =>
    stage.stopBetweenCheckAndWrite(worker, stage.random.between(least, most));

const blockBeforeWrite: Harm<WorkerProcess> = async (stage, worker) => {
  const durationMs = stage.random.between(1.2 * TTL_MS, 1.6 * TTL_MS);
  await worker.ask({ type: 'block-between-check-and-write', durationMs });
  await stage.pause(durationMs + 500);
};

const longStalls = ({ history }: Evidence): number =>
  history.filter(
    (event) =>
      event.type === 'stalled' && event.process.startsWith('worker') && event.to - event.from > 150,
  ).length;

const BLOCKS = 24;
const BURST = 60_000;
const HOUR_MS = 3_600_000;

const workers: readonly Schedule[] = [
  {
    name: 'worker stopped',
    what: 'workers are stopped (SIGSTOP) past the ttl, wherever they are, and go on',
    play: someWorker(3, stopWorker([1.1 * TTL_MS, 1.6 * TTL_MS]), 200),
  },
  {
    name: 'stopped between check and write',
    what: 'a holder learns that it holds its lock, its process stops past the ttl, goes on and writes',
    quick: true,
    load: { keys: 2, setShare: 0 },
    play: someWorker(3, stopBeforeWrite(1.5 * TTL_MS, 1.5 * TTL_MS), 200),
    withoutEffect: fenceNeeded,
  },
  {
    name: 'event loop blocked',
    what: 'a holder learns that it holds its lock, its event loop is blocked past the ttl, goes on and writes',
    quick: true,
    load: { keys: 2, setShare: 0 },
    play: someWorker(3, blockBeforeWrite, 200),
    withoutEffect: fenceNeeded,
  },
  {
    name: 'event loop blocked during votes',
    needsWritesAtOnce: true,
    what: 'the event loops of workers are blocked for 150 to 400 ms, at a node timeout of 100 ms, while they wait for votes: no caller takes that for an outage',
    quick: true,
    // Callers have no second try. And a core is left for the answers: without one to spare they are really late.
    load: { callers: 3, keys: 500, waitsMs: [0], holdMs: [0, 0], longShare: 0, pauseMs: 10 },
    ...NO_IDLE_LIMIT,
    play: someWorker(
      BLOCKS,
      async (stage, worker) => {
        const durationMs = stage.random.between(150, 400);
        await worker.ask({ type: 'block-during-votes', durationMs });
      },
      [20, 150],
    ),
    withoutEffect: (evidence) =>
      longStalls(evidence) < BLOCKS ? `only ${longStalls(evidence)} stalls` : undefined,
  },
  {
    name: 'burst of free keys',
    what: `one process asks for ${BURST} free keys at once, on three servers: it gets them all within its wait of 12 s`,
    // Callers beside it in this process have to stand in line behind it.
    load: { callers: 0 },
    options: { nodeTimeout: 330 },
    limits: { nodes: 3, nodeTimeoutMs: 330, idleMs: undefined },
    // The promise of this schedule is a time for a fixed amount of work, which takes all cores.
    alone: true,
    play: async (stage) => {
      await stage.everyWorker((worker) =>
        worker.ask({ type: 'use', key: worker.place, waitMs: 0 }),
      );
      const outcomes = await stage
        .aWorker()
        .ask<Record<string, number>>({ type: 'burst', keys: BURST, waitMs: 12_000 });
      stage.promise(outcomes['granted'] === BURST, JSON.stringify(outcomes));
    },
  },
  {
    name: 'worker killed',
    what: 'workers are killed (kill -9) at any moment, and new ones take their place',
    quick: true,
    play: someWorker(6, killWorker, [200, 600]),
  },
  {
    name: 'clocks of workers jump',
    what: 'the wall clocks of workers are wrong by an hour, twenty hours, two days or ten years, to both sides, and come back',
    // There are many records, so that a worker with a wrong clock meets some that it knows nothing of. Holds and jumps outlast the ttl: shorter ones change nothing.
    load: { keys: 40, longShare: 0.3 },
    play: inOrder(
      [1, -1, 20, -20, 48, -48, 87_600, -87_600].map((hours) => async (stage) => {
        const worker = stage.aWorker();
        await worker.ask({ type: 'set-wall-clock', skewMs: hours * HOUR_MS });
        await stage.pause(1.5 * TTL_MS);
        await worker.ask({ type: 'set-wall-clock', skewMs: 0 });
        await stage.pause(200);
      }),
    ),
  },
];

const one =
  (harm: Harm<readonly number[]>): Harm<number> =>
  (stage, node) =>
    harm(stage, [node]);
const freezeServer = one(freeze([100, 1_500]));
const killServer = one(async (stage, nodes) => {
  await restart({ downMs: [0, 800] })(stage, nodes);
  // The server counts as away until it votes again.
  await stage.pause(TTL_MS + 300);
});
const loseReplies = one(links({ kind: 'lose', direction: 'replies' }, [100, 1_000]));
const holdAll = one(links({ kind: 'hold' }, [100, 1_500]));
const stopWorkerPastTtl = stopWorker([1.1 * TTL_MS, 2 * TTL_MS]);

const KEYS = 10;
const LOAD_WORKERS = 5;
const LOAD_MS = 20_000;

async function playUnderLoad(stage: Stage): Promise<void> {
  const servers = new Set(stage.servers.keys());
  const free = new Set(stage.workers);
  await Promise.all([
    ...[1, 2].map(() =>
      harmAll(stage, servers, [freezeServer, killServer], LOAD_MS, [200, 900] as const),
    ),
    ...[stopWorkerPastTtl, stopWorkerPastTtl, killWorker].map((harm) =>
      harmAll(stage, free, [harm], LOAD_MS, [200, 900] as const),
    ),
  ]);
}

/** A run in which little happened proves nothing. */
function tooLittle(evidence: Evidence): string | undefined {
  const { history, measures } = evidence;
  const grants = history.flatMap((event) => (event.type === 'granted' ? [event] : []));
  const kills = history.filter((event) => event.type === 'mark' && event.mark === 'worker-killed');
  const faults = new Set(history.flatMap((event) => (event.type === 'fault' ? [event.what] : [])));
  const enough = {
    keys: new Set(grants.flatMap(({ keys }) => keys)).size === KEYS,
    workers: new Set(grants.map(({ process }) => placeOf(process))).size === LOAD_WORKERS,
    'restarted workers': grants.some(({ process }) => !process.endsWith('/0')),
    grants: grants.length > LOAD_MS / 200,
    extensions: measures.extensions > 0,
    losses: measures.losses > 0,
    refusals: Object.keys(measures.refusals).length > 0,
    'killed workers': kills.length > LOAD_MS / 10_000,
    'frozen workers': longStalls(evidence) > LOAD_MS / 5_000,
    'killed and frozen servers': faults.has('restarted') && faults.has('frozen'),
  };
  const missing = Object.entries(enough).flatMap(([what, isThere]) => (isThere ? [] : [what]));
  return missing.length > 0 ? `too few: ${missing.join(', ')}` : undefined;
}

const mixed = (name: string, durationMs: number, more: Partial<Schedule> = {}): Schedule => ({
  name,
  what: `for ${durationMs / 1_000} s one server at a time freezes, dies, or loses replies, while workers stop and die`,
  ...more,
  play: async (stage) => {
    const servers = [freezeServer, killServer, loseReplies, holdAll];
    const harms = [
      stopWorker([0.2 * TTL_MS, 1.5 * TTL_MS]),
      killWorker,
      stopBeforeWrite(1.1 * TTL_MS, 1.5 * TTL_MS),
    ];
    await Promise.all([
      harmAll(stage, new Set(stage.servers.keys()), servers, durationMs, [100, 500]),
      harmAll(stage, new Set(stage.workers), harms, durationMs, [100, 500]),
    ]);
  },
});

const everything: readonly Schedule[] = [
  mixed('mixed', 8_000, { quick: true }),
  mixed('mixed, long', 20_000),
  {
    name: 'kills and freezes under load',
    what: 'for 20 s up to two servers and three of five workers at a time freeze or die: token order on ten records',
    quick: true,
    workers: LOAD_WORKERS,
    // A process that starts in place of a killed one takes a second of a core.
    alone: true,
    load: { keys: KEYS, waitsMs: [0, 100, 1_000], longShare: 0.05, setShare: 0.2, pauseMs: 10 },
    play: playUnderLoad,
    withoutEffect: tooLittle,
  },
];

export const workerSchedules: readonly Schedule[] = [...workers, ...everything];
