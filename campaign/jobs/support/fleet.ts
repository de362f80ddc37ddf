import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { Program } from '../../../test/support/program.ts';
import { SeededRandom } from '../../../test/support/seeded-random.ts';
import { countEffects } from './ledger.ts';
import { QUEUES } from './queues.ts';
import type { WorkerQuestion, WorkerSettings, WorkerState } from './worker.ts';

/** Few enough that a job which is given up is handed out at once: some queues put it behind all that wait. */
const BATCH = 40;

/** Longer than the slowest queue takes on a busy machine: only a queue that hands a job out no more crosses it. */
const LIMIT_MS = 15 * 60_000;

export interface FleetSettings extends Omit<WorkerSettings, 'clockMs'> {
  readonly jobs: number;
  readonly seed: number;
  /** How far the clock of each worker is ahead. */
  readonly clocks: readonly number[];
}

/** What was done to the workers, and what they saw. */
export interface FleetReport {
  readonly stops: number;
  readonly blocks: number;
  readonly refused: number;
  /** Errors of runs by their text, without those of stale tokens. */
  readonly errors: Record<string, number>;
  readonly seconds: number;
}

type Worker = Program<WorkerQuestion>;

/** Has processes work on all jobs, while one after another is stopped or has its event loop blocked, until each job is done. */
export async function workOff(settings: FleetSettings, pool: pg.Pool): Promise<FleetReport> {
  const { jobs, seed, clocks, ...rest } = settings;
  const queue = QUEUES[settings.queue];
  const startedAtMs = performance.now();
  let added = 0;
  const add = async (): Promise<void> => {
    const numbers = Array.from(
      { length: Math.min(BATCH, jobs - added) },
      (_, index) => added + index,
    );
    added += numbers.length;
    if (numbers.length > 0) await queue.add(settings.queueUrl, numbers);
  };
  await add();
  const workers = clocks.map(
    (clockMs): Worker =>
      new Program(new URL('worker.ts', import.meta.url).pathname, { ...rest, clockMs }),
  );
  try {
    await Promise.all(workers.map((worker) => worker.first()));
    const chance = new SeededRandom(seed);
    const counts = { stops: 0, blocks: 0 };
    const isDone = async () =>
      (await countEffects(pool, settings.file)) === jobs &&
      (await queue.pending(settings.queueUrl)) === 0;
    while (added < jobs || !(await isDone())) {
      if (performance.now() - startedAtMs > LIMIT_MS) throw new Error('some jobs are never done');
      await add();
      await sleep(chance.between(100, 500));
      const isStop = chance.fraction() < 0.5;
      counts[isStop ? 'stops' : 'blocks'] += 1;
      await freeze(chance.pick(workers), queue.freezeMs, isStop, () =>
        queue.giveUp?.(settings.queueUrl),
      );
    }
    const states = await Promise.all(workers.map(idle));
    return {
      ...counts,
      refused: states.reduce((sum, { refused }) => sum + refused, 0),
      errors: Object.assign({}, ...states.map(({ errors }) => errors)),
      seconds: Math.round((performance.now() - startedAtMs) / 1_000),
    };
  } finally {
    await Promise.all(workers.map((worker) => worker.kill()));
  }
}

async function freeze(
  worker: Worker,
  forMs: number,
  isStop: boolean,
  meanwhile: () => unknown,
): Promise<void> {
  const blocked = isStop ? worker.child.kill('SIGSTOP') : worker.ask({ blockMs: forMs });
  await sleep(forMs / 2);
  await meanwhile();
  await sleep(forMs / 2);
  if (isStop) worker.child.kill('SIGCONT');
  await blocked;
}

/** The state of a worker when its last run has ended. */
async function idle(worker: Worker): Promise<WorkerState> {
  for (;;) {
    const state = await worker.ask<WorkerState>({ ask: 'state' });
    if (state.running === 0) return state;
    await sleep(50);
  }
}
