import { availableParallelism } from 'node:os';
import { Program, type Edit } from '../support/program.ts';
import type { Family } from './families/plan.ts';
import type { RunResult } from './simulation.ts';
import { emptyCounts, type RunCounts } from './world/run-context.ts';
import type { SeedQuestion } from './worker.ts';

export interface SeedsOptions {
  readonly from: number;
  readonly seeds: number;
  /** @default as many as the machine has cores */
  readonly workers?: number;
  /** Changes to the code under test; none for the shipped code. */
  readonly edits?: readonly Edit[];
  /** Family to which runs are limited. */
  readonly family?: Family;
  /** Ends all at the first failure for which it is true. */
  readonly stopAt?: (failure: RunResult) => boolean;
  readonly trace?: boolean;
}

export interface SeedsResult {
  runs: number;
  events: number;
  readonly counts: RunCounts;
  /** Runs that broke a promise. */
  readonly failures: RunResult[];
  readonly trace: string[];
  /** Workers that ended other than by themselves: their last words. */
  readonly crashes: string[];
}

/** Runs seeds in worker processes of their own: plain node, so that unhandled rejections show and mutants can be loaded. */
export async function runSeeds(options: SeedsOptions): Promise<SeedsResult> {
  const { from, seeds, family, edits, stopAt, trace = false } = options;
  const { workers = Math.min(availableParallelism(), seeds) } = options;
  const result: SeedsResult = {
    runs: 0,
    events: 0,
    counts: emptyCounts(),
    failures: [],
    trace: [],
    crashes: [],
  };
  let next = from;
  let isStopped = false;
  const lane = async (): Promise<void> => {
    const program = new Program<SeedQuestion>('test/simulation/worker.ts', {}, edits);
    try {
      await program.first();
      while (!isStopped && next < from + seeds) {
        const run = await program.ask<RunResult>({ seed: next++, family, trace });
        if (isStopped) return;
        result.runs += 1;
        result.events += run.events;
        for (const name of Object.keys(run.counts) as (keyof RunCounts)[])
          result.counts[name] += run.counts[name];
        result.trace.push(...run.trace);
        if (run.violations.length === 0) continue;
        result.failures.push(run);
        isStopped = stopAt?.(run) === true;
      }
    } catch (error) {
      result.crashes.push(String(error));
    } finally {
      await program.kill();
    }
  };
  await Promise.all(Array.from({ length: workers }, lane));
  return result;
}

/** Describes for people what broke, and how to see it again. */
export function describeFailure({ seed, violations }: RunResult, family?: Family): string {
  const chosen = family === undefined ? '' : ` --family ${family}`;
  return [
    `Seed ${seed} breaks ${violations.length} promise(s):`,
    ...violations.slice(0, 5).map(({ rule, message }) => `  ${rule}: ${message}`),
    `Replay: npm run simulate -- --seed ${seed}${chosen} --trace`,
  ].join('\n');
}
