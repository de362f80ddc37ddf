import { availableParallelism } from 'node:os';
import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import {
  chosen,
  keepHistory,
  MOST_PLAYS,
  readPartOptions,
  say,
  sayHow,
  someOf,
} from '../part-options.ts';
import { CONTROLS, type Control } from './controls.ts';
import { runSchedule, type RunResult } from './run-schedule.ts';
import type { Schedule } from './schedule.ts';
import { SCHEDULES } from './schedules/index.ts';

/** A run that is due. */
interface PlannedRun {
  readonly schedule: Schedule;
  /** The control by which the code is broken on purpose, and which the run has to show. */
  readonly control?: Control;
}

const options = readPartOptions();
const SHOWN_VIOLATIONS = 10;
/** Another client library is judged by the same judge; that it notices broken code is shown once. */
const PART = (process.env['CLIENT'] ?? 'ioredis') === 'ioredis' ? 'faults' : 'clients';

function planRuns(): readonly PlannedRun[] {
  const runs: (PlannedRun & { readonly name: string })[] = [
    ...SCHEDULES.map((schedule) => ({ name: schedule.name, schedule })),
    ...CONTROLS.map((control) => {
      const schedule = SCHEDULES.find(({ name }) => name === control.schedule);
      if (!schedule) throw new Error(`There is no schedule '${control.schedule}'`);
      return { name: control.name, schedule, control };
    }),
  ];
  const isPlayed = ({ schedule, control }: PlannedRun): boolean =>
    PART === 'faults' || !(control !== undefined || schedule.needsWritesAtOnce === true);
  const isDue = ({ schedule, control }: PlannedRun): boolean =>
    !options.isQuick || options.only !== '' || (control ?? schedule).quick === true;
  return someOf(chosen(runs, options.only).filter(isPlayed).filter(isDue), options.only);
}

/** Says what became of the run; false when it failed. A run that broke a promise is never played again. */
async function carryOut(run: PlannedRun): Promise<boolean> {
  const { schedule, control } = run;
  const name = control ? `control ${control.name} in '${schedule.name}'` : schedule.name;
  const again = (history?: string): void =>
    sayHow(`${PART}/${(control ?? schedule).name}`, { ...options, isQuick: false }, history);
  for (let play = 1; ; play += 1) {
    const seed = options.seed + play - 1;
    try {
      const result = await runSchedule(schedule, seed, control?.edits ?? []);
      const { failure, figures, isHidden } = control
        ? judgeControl(control, result)
        : judgeSchedule(result);
      if (isHidden && play < MOST_PLAYS) continue;
      say(`| ${failure === undefined ? 'ok' : 'FAILED'} | ${name} | ${seed} | ${figures} |`);
      if (failure === undefined) return true;
      say(failure);
      again(keepHistory(`${name} ${seed}`, result.history));
      return false;
    } catch (error) {
      const why = error instanceof Error ? error.stack : String(error);
      say(`| FAILED | ${name} | ${seed} | could not be carried out: ${why}`);
      again();
      return false;
    }
  }
}

interface Judgement {
  readonly failure?: string;
  readonly figures: string;
  /** Whether the machine may have hidden what there is to see. */
  readonly isHidden: boolean;
}

function judgeControl(control: Control, { violations }: RunResult): Judgement {
  const noticed = violations.find(({ rule }) => control.caughtBy.includes(rule));
  const figures = `noticed by ${noticed?.rule ?? 'nothing'}`;
  return noticed
    ? { figures, isHidden: false }
    : { failure: `not noticed in ${MOST_PLAYS} plays`, figures, isHidden: true };
}

function judgeSchedule(result: RunResult): Judgement {
  return {
    failure: whatFailed(result),
    figures: rowOf(result),
    isHidden: provesNothing(result),
  };
}

function provesNothing({ violations, withoutEffect }: RunResult): boolean {
  if (violations.length === 0) return withoutEffect !== undefined;
  return violations.every(({ rule }) => rule === 'nothing-happened');
}

function whatFailed({ violations, withoutEffect }: RunResult): string | undefined {
  const shown = violations.slice(0, SHOWN_VIOLATIONS);
  if (shown.length > 0) return shown.map(({ rule, message }) => `- ${rule}: ${message}`).join('\n');
  return withoutEffect === undefined ? undefined : `without effect: ${withoutEffect}`;
}

const FIGURES = [
  'grants',
  'lost',
  'busy',
  'outages',
  'stale writes: unfenced took',
  'the fence refused',
  'overlap ms',
  'idle ms',
  'idle excused',
  'recovery ms',
];

/** The figures of a run, as in docs/internals/fault-campaign.md. */
function rowOf({ measures }: RunResult): string {
  return [
    measures.grants,
    measures.losses,
    measures.refusals['LOCK_BUSY'] ?? 0,
    measures.outages,
    measures.unfencedStaleWrites,
    measures.fencedRefusals,
    Math.round(measures.longestOverlapMs),
    Math.round(measures.longestIdleMs),
    `${Math.round(100 * measures.excusedIdleShare)} %`,
    Math.round(measures.longestRecoveryMs),
  ].join(' | ');
}

/** Carries out the runs, so many at once; each has its own servers and processes, and keeps about half a core busy. */
async function runAll(runs: readonly PlannedRun[], parallel: number): Promise<number> {
  const left = runs.values();
  let failed = 0;
  const lane = async (): Promise<void> => {
    for (const run of left) if (!(await carryOut(run))) failed += 1;
  };
  await Promise.all(Array.from({ length: parallel }, lane));
  return failed;
}

async function main(): Promise<void> {
  const plan = planRuns();
  await installSqlite();
  const startedAtMs = performance.now();
  say(`|  | schedule | seed | ${FIGURES.join(' | ')} |`);
  say(`| -- | -- | -- | ${FIGURES.map(() => '--').join(' | ')} |`);
  const beside = plan.filter(({ schedule }) => schedule.alone !== true);
  const alone = plan.filter(({ schedule }) => schedule.alone === true);
  const failed = (await runAll(beside, availableParallelism())) + (await runAll(alone, 1));
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(1);
  say(`\n${plan.length} runs in ${minutes} min, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

await main();
