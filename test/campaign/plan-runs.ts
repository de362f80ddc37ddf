import { CONTROLS } from './controls.ts';
import type { PlannedRun } from './run/campaign.ts';
import { SCHEDULES } from './schedules/index.ts';

/** Selection on the command line. */
export interface RunSelection {
  /** Limits runs to the schedules and controls for every change. */
  readonly quick: boolean;
  /** Limits runs to what has this in its name. */
  readonly only: string | undefined;
  readonly firstSeed: number;
  /** Number of runs of each schedule. */
  readonly seeds: number;
  /** Whether the code is broken on purpose as well, once each. */
  readonly controls: boolean;
}

export function planRuns({ quick, only, firstSeed, seeds, controls }: RunSelection): PlannedRun[] {
  const fits = ({ name, quick: isQuick }: { name: string; quick?: true }): boolean =>
    (!quick || isQuick === true) && (only === undefined || name.includes(only));
  const runs: PlannedRun[] = [];
  for (let seed = firstSeed; seed < firstSeed + seeds; seed += 1) {
    for (const schedule of SCHEDULES) if (fits(schedule)) runs.push({ schedule, seed });
  }
  for (const control of controls ? CONTROLS : []) {
    const schedule = SCHEDULES.find(({ name }) => name === control.schedule);
    if (!schedule) throw new Error(`There is no schedule '${control.schedule}'`);
    if (fits(control)) runs.push({ schedule, seed: firstSeed, control });
  }
  return runs;
}
