import type { Schedule } from '../schedule.ts';
import { networkSchedules } from './network.ts';
import { serverSchedules } from './servers.ts';
import { workerSchedules } from './workers.ts';

export const SCHEDULES: readonly Schedule[] = [
  ...serverSchedules,
  ...networkSchedules,
  ...workerSchedules,
];
