import type { CampaignEvent } from '../campaign-event.ts';
import type { Evidence, Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';
import type { WorkerProcess } from '../run/worker-process.ts';
import { placeOf } from '../checks/processes.ts';
import type { EventOf } from '../checks/run-facts.ts';

// Everything at once, by chance.

type Harm<Target> = (stage: Stage, target: Target) => Promise<void>;

interface Lane<Target> {
  /** Shared by all lanes of the same kind of targets. */
  readonly free: Set<Target>;
  readonly harms: readonly Harm<Target>[];
  readonly until: number;
  readonly pausesMs: readonly [number, number];
}

const freezeServer: Harm<number> = (stage, node) =>
  stage.freeze([node], stage.random.between(100, 1_500));

const killServer: Harm<number> = async (stage, node) => {
  await stage.restart([node], { downMs: stage.random.between(0, 800) });
  // Server counts as away until it votes again.
  await stage.pause(stage.guardMs + 300);
};

const loseReplies: Harm<number> = (stage, node) =>
  stage.links({ kind: 'lose', direction: 'replies' }, stage.random.between(100, 1_000), {
    nodes: [node],
  });

const holdAll: Harm<number> = (stage, node) =>
  stage.links({ kind: 'hold' }, stage.random.between(100, 1_500), { nodes: [node] });

const stopWorker: Harm<WorkerProcess> = (stage, worker) =>
  stage.stopWorker(worker, stage.ttlMs * stage.random.between(0.2, 1.5));

const stopWorkerPastTtl: Harm<WorkerProcess> = (stage, worker) =>
  stage.stopWorker(worker, stage.ttlMs * stage.random.between(1.1, 2));

const killWorker: Harm<WorkerProcess> = (stage, worker) =>
  stage.killWorker(worker, stage.random.between(0, 300));

const stopInTheMiddle: Harm<WorkerProcess> = (stage, worker) =>
  stage.stopBetweenCheckAndWrite(worker, stage.ttlMs * stage.random.between(1.1, 1.5));

/** Harms for a while whichever target no other lane harms, again and again; the pauses between harms are as long as given. */
async function lane<Target>(
  stage: Stage,
  { free, harms, until, pausesMs }: Lane<Target>,
): Promise<void> {
  while (performance.now() < until) {
    const target = stage.random.pick([...free]);
    free.delete(target);
    await stage.random.pick(harms)(stage, target);
    free.add(target);
    await stage.pause(stage.random.between(...pausesMs));
  }
}

const mixed = (name: string, durationMs: number, quick: Pick<Schedule, 'quick'>): Schedule => ({
  name,
  what: `for ${durationMs / 1_000} s one server at a time freezes, dies, or loses replies, while workers stop and die`,
  ...quick,
  async play(stage) {
    const both = { until: performance.now() + durationMs, pausesMs: [100, 500] as const };
    const servers = [freezeServer, killServer, loseReplies, holdAll];
    const workers = [stopWorker, killWorker, stopInTheMiddle];
    await Promise.all([
      lane(stage, { free: new Set(stage.servers.keys()), harms: servers, ...both }),
      lane(stage, { free: new Set(stage.workers), harms: workers, ...both }),
    ]);
  },
});

const KEYS = 10;
const LOAD_WORKERS = 5;
const LOAD_MS = 20_000;

const underLoad: Schedule = {
  name: 'kills and freezes under load',
  what: 'for 20 s up to two servers and three of five workers at a time freeze or die: token order on ten records',
  quick: true,
  workers: LOAD_WORKERS,
  // A process that starts in place of a killed one takes a second of a core.
  alone: true,
  load: { keys: KEYS, waitsMs: [0, 100, 1_000], longShare: 0.05, setShare: 0.2, pauseMs: 10 },
  async play(stage) {
    const both = { until: performance.now() + LOAD_MS, pausesMs: [200, 900] as const };
    const servers = { free: new Set(stage.servers.keys()), harms: [freezeServer, killServer] };
    const free = new Set(stage.workers);
    await Promise.all([
      ...[1, 2].map(() => lane(stage, { ...servers, ...both })),
      ...[stopWorkerPastTtl, stopWorkerPastTtl, killWorker].map((harm) =>
        lane(stage, { free, harms: [harm], ...both }),
      ),
    ]);
  },
  withoutEffect: tooLittle,
};

/** A run in which little happened proves nothing. */
function tooLittle({ history, measures }: Evidence): string | undefined {
  const of = <Type extends CampaignEvent['type']>(type: Type) =>
    history.filter((event): event is EventOf<Type> => event.type === type);
  const grants = of('granted');
  const marks = of('mark').map(({ mark }) => mark);
  const faults = of('fault').map(({ what }) => what);
  const count = (all: readonly string[], wanted: string): number =>
    all.filter((each) => each === wanted).length;
  const seconds = LOAD_MS / 1_000;
  const missing = Object.entries({
    keys: new Set(grants.flatMap(({ keys }) => keys)).size === KEYS,
    workers: new Set(grants.map(({ process }) => placeOf(process))).size === LOAD_WORKERS,
    'restarted workers': grants.some(({ process }) => !process.endsWith('/0')),
    grants: grants.length > 5 * seconds,
    sets: grants.some(({ keys }) => keys.length > 1),
    extensions: measures.extensions > 0,
    'inner uses': of('reentered').length > 0,
    losses: measures.losses > 0,
    stalls: of('stalled').some(({ process }) => process.startsWith('worker')),
    refusals: Object.keys(measures.refusals).length > 0,
    'killed workers': count(marks, 'worker-killed') > seconds / 10,
    'frozen workers': count(marks, 'worker-stopped') > seconds / 5,
    'killed servers': count(faults, 'restarted') > 0,
    'frozen servers': count(faults, 'frozen') > 0,
  }).flatMap(([what, isThere]) => (isThere ? [] : [what]));
  return missing.length > 0 ? `too few: ${missing.join(', ')}` : undefined;
}

export const mixedSchedules: readonly Schedule[] = [
  mixed('mixed', 8_000, { quick: true }),
  mixed('mixed, long', 20_000, {}),
  underLoad,
];
