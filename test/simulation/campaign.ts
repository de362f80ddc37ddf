import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import type { Edit } from './mutants/mutants.ts';
import type { Family } from './families/plan.ts';
import { emptyCounts } from './world/run-context.ts';
import type { RunCounts } from './world/run-context.ts';
import type { FailureReport, WorkerMessage, WorkerTask } from './worker.ts';

export interface CampaignOptions {
  readonly from: number;
  readonly seeds: number;
  /** @default as many as the machine has cores */
  readonly workers?: number;
  /** Changes to the code under test; none for the shipped code. */
  readonly edits?: readonly Edit[];
  /** Family to which runs are limited. */
  readonly family?: Family;
  /** Look for the smallest run that shows a failure; takes many runs. @default true */
  readonly minimise?: boolean;
  /** Ends the whole campaign at the first failure for which it is true. */
  readonly stopAt?: (failure: FailureReport) => boolean;
  readonly without?: readonly number[];
  readonly trace?: boolean;
  readonly onProgress?: (done: number, failures: number) => void;
}

export interface CampaignResult {
  runs: number;
  events: number;
  readonly counts: RunCounts;
  readonly failures: FailureReport[];
  readonly trace: string[];
  /** Workers that ended other than by themselves: their output. */
  readonly crashes: string[];
}

/** Runs seeds in worker processes of their own: plain node, so that unhandled rejections show and mutants can be loaded. */
export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { from, seeds, workers = Math.min(availableParallelism(), seeds) } = options;
  const result: CampaignResult = {
    runs: 0,
    events: 0,
    counts: emptyCounts(),
    failures: [],
    trace: [],
    crashes: [],
  };
  const children: ChildProcess[] = [];
  const stop = (): void => children.forEach((child) => child.kill('SIGKILL'));
  let stopping = false;
  const receive = (message: WorkerMessage): void => {
    if (message.type === 'progress') add(result, message);
    if (message.type === 'trace') for (const line of message.lines) result.trace.push(line);
    if (message.type === 'failure') result.failures.push(message.report);
    options.onProgress?.(result.runs, result.failures.length);
    if (message.type !== 'failure' || options.stopAt?.(message.report) !== true) return;
    stopping = true;
    stop();
  };
  const ended = Array.from({ length: workers }, async (_, index) => {
    const child = startWorker(options.edits ?? []);
    children.push(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (text: Buffer) => (output = (output + text.toString()).slice(-4_000)));
    child.on('message', receive);
    const task: WorkerTask = {
      from: from + index,
      until: from + seeds,
      step: workers,
      family: options.family,
      minimise: options.minimise !== false,
      without: options.without ?? [],
      trace: options.trace === true,
    };
    child.send(task);
    await once(child, 'close');
    if (child.exitCode !== 0 && !stopping) result.crashes.push(`exit ${child.exitCode}: ${output}`);
  });
  await Promise.all(ended).finally(stop);
  return result;
}

function startWorker(edits: readonly Edit[]): ChildProcess {
  const loaders = [
    './test/support/typescript-loader.mjs',
    './test/simulation/mutants/mutant-loader.mjs',
  ];
  const used = edits.length > 0 ? loaders : loaders.slice(0, 1);
  return fork(resolve('test/simulation/worker.ts'), [], {
    execArgv: used.flatMap((loader) => ['--import', loader]),
    env: {
      ...process.env,
      NODE_OPTIONS: '',
      NESTJS_FENCED_LOCK_INVARIANTS: 'on',
      SIMULATED_EDITS: JSON.stringify(edits),
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
}

function add(
  result: CampaignResult,
  { runs, events, counts }: Extract<WorkerMessage, { type: 'progress' }>,
): void {
  result.runs += runs;
  result.events += events;
  for (const name of Object.keys(counts) as (keyof RunCounts)[]) {
    result.counts[name] += counts[name];
  }
}

/** Describes for people what broke, the story of the smallest run that shows it, and how to see it again. */
export function describeFailure({
  seed,
  family,
  violations,
  without,
  story,
}: FailureReport): string {
  const chosen = family === undefined ? '' : ` --family ${family}`;
  const replay = `npm run simulate -- --seed ${seed}${chosen}${without.length > 0 ? ` --without ${without.join()}` : ''} --trace`;
  return [
    `Seed ${seed} breaks ${violations.length} promise(s):`,
    ...violations.slice(0, 5).map(({ rule, message }) => `  ${rule}: ${message}`),
    '',
    ...story.slice(-120),
    '',
    `Replay: ${replay}`,
  ].join('\n');
}
