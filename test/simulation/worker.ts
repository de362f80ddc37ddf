import { minimise, story, withoutFaults } from './minimise.ts';
import { planOf } from './families/draw-plan.ts';
import type { Family } from './families/plan.ts';
import { emptyCounts } from './world/run-context.ts';
import type { RunCounts } from './world/run-context.ts';
import { simulate } from './simulation.ts';
import type { RunResult } from './simulation.ts';
import type { Violation } from './checks/violations.ts';

/** Seeds that a worker process runs, and how. */
export interface WorkerTask {
  readonly from: number;
  readonly until: number;
  readonly step: number;
  /** Family to which runs are limited. */
  readonly family: Family | undefined;
  /** Look for the smallest run that shows a failure. */
  readonly minimise: boolean;
  /** Faults to leave out, by number. */
  readonly without: readonly number[];
  readonly trace: boolean;
}

export interface FailureReport {
  readonly seed: number;
  readonly family: Family | undefined;
  readonly violations: readonly Violation[];
  /** Faults that are not needed for it. */
  readonly without: readonly number[];
  readonly story: readonly string[];
}

/** Message of a worker to its parent. */
export type WorkerMessage =
  | {
      readonly type: 'progress';
      readonly runs: number;
      readonly events: number;
      readonly counts: RunCounts;
    }
  | { readonly type: 'failure'; readonly report: FailureReport }
  | { readonly type: 'trace'; readonly lines: readonly string[] }
  | { readonly type: 'done' };

const REPORT_EVERY = 20;
let rejections: Violation[] = [];

process.on('unhandledRejection', (reason) => {
  const message = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
  rejections.push({ rule: 'unhandled-rejection', message });
});

async function runSeed(seed: number, task: WorkerTask): Promise<RunResult> {
  rejections = [];
  const plan = withoutFaults(planOf(seed, task.family), new Set(task.without));
  const result = await simulate(plan, { trace: task.trace });
  // Node reports unhandled rejections between turns of its event loop.
  await new Promise((resolve) => setImmediate(resolve));
  return { ...result, violations: [...result.violations, ...rejections] };
}

async function report(result: RunResult, task: WorkerTask): Promise<FailureReport> {
  const plan = withoutFaults(planOf(result.seed, task.family), new Set(task.without));
  const small = task.minimise && task.without.length === 0;
  const left = small ? await minimise(plan, result) : new Set<number>();
  const smallest = await simulate(withoutFaults(plan, left), { trace: true });
  const shown = smallest.violations.length > 0 ? smallest : result;
  const without = [...task.without, ...left];
  const { family } = task;
  return {
    seed: result.seed,
    family,
    violations: shown.violations,
    without,
    story: story(smallest),
  };
}

async function work(task: WorkerTask): Promise<void> {
  let runs = 0;
  let events = 0;
  let counts = emptyCounts();
  const flush = (): void => {
    tell({ type: 'progress', runs, events, counts });
    runs = events = 0;
    counts = emptyCounts();
  };
  for (let seed = task.from; seed < task.until; seed += task.step) {
    const result = await runSeed(seed, task);
    runs += 1;
    events += result.events;
    for (const name of Object.keys(counts) as (keyof RunCounts)[])
      counts[name] += result.counts[name];
    if (task.trace) tell({ type: 'trace', lines: result.trace });
    if (runs >= REPORT_EVERY) flush();
    if (result.violations.length === 0) continue;
    tell({ type: 'failure', report: await report(result, task) });
  }
  flush();
  tell({ type: 'done' });
}

let sent: Promise<unknown> = Promise.resolve();

function tell(message: WorkerMessage): void {
  sent = new Promise((resolve) => process.send?.(message, resolve));
}

process.once('message', (task: WorkerTask) => {
  void work(task)
    .then(() => sent)
    .finally(() => process.disconnect());
});
