import { answerQuestions } from '../support/program.ts';
import type { Violation } from './checks/violations.ts';
import { planOf } from './families/draw-plan.ts';
import type { Family } from './families/plan.ts';
import { simulate, type RunResult } from './simulation.ts';

/** A run that a worker process is asked for. */
export interface SeedQuestion {
  readonly seed: number;
  readonly family: Family | undefined;
  readonly trace: boolean;
}

let rejections: Violation[] = [];

process.on('unhandledRejection', (reason) => {
  const message = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
  rejections.push({ rule: 'unhandled-rejection', message });
});
process.once('disconnect', () => process.exit());

answerQuestions(undefined, async ({ seed, family, trace }: SeedQuestion): Promise<RunResult> => {
  rejections = [];
  const result = await simulate(planOf(seed, family), { trace });
  // Node.js reports unhandled rejections between turns of its event loop.
  await new Promise((resolve) => setImmediate(resolve));
  return { ...result, violations: [...result.violations, ...rejections] };
});
