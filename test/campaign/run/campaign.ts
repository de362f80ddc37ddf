import type { Control } from '../controls.ts';
import { runSchedule, type RunResult } from './run-schedule.ts';
import type { Schedule } from './schedule.ts';

/** Run that is due. */
export interface PlannedRun {
  readonly schedule: Schedule;
  readonly seed: number;
  /** Control by which the code is broken on purpose, and which the run has to show. */
  readonly control?: Control;
}

/** Outcome of a planned run. */
export interface FinishedRun extends PlannedRun {
  /** Absent when the run itself could not be carried out. */
  readonly result?: RunResult;
  /** Reason why it counts as failed; undefined when all is well. */
  readonly failure: string | undefined;
  /** Number of times that it was played until it proved something, or was given up. */
  readonly tries: number;
}

/** Limit of plays for a schedule that proves nothing, because the machine stalls too much. */
const MOST_TRIES = 3;

/**
 * Carries out the runs, and resolves with them in the order of the plan. A run without a broken promise that proves nothing
 * is repeated: what it says is nothing, neither good nor bad. One that broke a promise never is.
 *
 * @param parallel how many at once; each has its own servers and processes, and keeps about half a core busy
 */
export async function runCampaign(
  plan: readonly PlannedRun[],
  parallel: number,
  onFinished: (finished: FinishedRun, done: number) => void,
): Promise<FinishedRun[]> {
  const finished = new Map<PlannedRun, FinishedRun>();
  const lanes = async (runs: readonly PlannedRun[], count: number): Promise<void> => {
    const left = runs.values();
    const lane = async (): Promise<void> => {
      for (const planned of left) {
        const run = await carryOut(planned);
        finished.set(planned, run);
        onFinished(run, finished.size);
      }
    };
    await Promise.all(Array.from({ length: count }, lane));
  };
  const isAlone = ({ schedule }: PlannedRun): boolean => schedule.alone === true;
  await lanes(
    plan.filter((run) => !isAlone(run)),
    parallel,
  );
  await lanes(plan.filter(isAlone), 1);
  return plan.map((planned) => finished.get(planned)!);
}

async function carryOut(planned: PlannedRun): Promise<FinishedRun> {
  const { schedule, seed, control } = planned;
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await runSchedule(schedule, { seed, edits: control?.edits ?? [] });
      if (control === undefined && provesNothing(result) && tries < MOST_TRIES) continue;
      return { ...planned, result, failure: judge(result, control), tries };
    } catch (error) {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      return { ...planned, failure: `could not be carried out: ${message}`, tries };
    }
  }
}

function provesNothing({ violations, withoutEffect }: RunResult): boolean {
  if (violations.length === 0) return withoutEffect !== undefined;
  return violations.every(({ rule }) => rule === 'nothing-happened');
}

function judge({ violations, withoutEffect }: RunResult, control: Control | undefined) {
  if (control) {
    const caught = violations.some(({ rule }) => control.caughtBy.includes(rule));
    return caught ? undefined : `not caught: ${control.claim}`;
  }
  if (violations.length > 0) return `${violations.length} violations`;
  return withoutEffect === undefined ? undefined : `without effect: ${withoutEffect}`;
}
