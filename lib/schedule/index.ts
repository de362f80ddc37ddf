/**
 * Cron jobs that run once in a fleet, with a ledger of their runs.
 *
 * @module nestjs-fenced-lock/schedule
 */
export { FencedCron, type FencedCronOptions } from './fenced-cron.decorator.ts';
export { CronRun } from './cron-run.ts';
export { CronRuns, cronDdl } from './cron-runs.ts';
export { fencedRunCoordinator, type RunCoordinator } from './run-coordinator.ts';
export type { RunRecord } from './run-ledger.ts';
