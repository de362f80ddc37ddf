import type { Schedule } from '../run/schedule.ts';
import { brokenNetworkSchedules } from './broken-network.ts';
import { forgottenFlowSchedules } from './forgotten-flows.ts';
import { mixedSchedules } from './mixed.ts';
import { restartSchedules } from './restarts.ts';
import { serverClockSchedules } from './server-clocks.ts';
import { serverErrorSchedules } from './server-errors.ts';
import { serversAwaySchedules } from './servers-away.ts';
import { steadySchedules } from './steady.ts';
import { workerSchedules } from './workers.ts';

/** Schedules of the campaign, in the order of the table of results. */
export const SCHEDULES: readonly Schedule[] = [
  ...steadySchedules,
  ...serversAwaySchedules,
  ...restartSchedules,
  ...brokenNetworkSchedules,
  ...forgottenFlowSchedules,
  ...workerSchedules,
  ...serverErrorSchedules,
  ...serverClockSchedules,
  ...mixedSchedules,
];
