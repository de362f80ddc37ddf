import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { positiveInteger, readOptions, refuse } from '../../test/support/command-line.ts';
import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import { CONTROLS, type Control } from './controls.ts';
import { runSchedule, type RunResult } from './run-schedule.ts';
import type { Schedule } from './schedule.ts';
import { SCHEDULES } from './schedules/index.ts';

const USAGE = `
Usage: npm run faults -- [options]

Real faults on real servers and processes: every schedule and every control, once.

  --quick                the selection that every change has to pass
  --only <text>          what has this text in its name
  --seed <number>        the first seed; by chance when left out
  --seeds <number>       how often each schedule is run, with one seed after the other (1)
  --parallel <number>    how many runs at once (one for each core)
  --list                 names all schedules and controls, and runs none
  --help                 prints this
`;

/** Run that is due. */
interface PlannedRun {
  readonly schedule: Schedule;
  readonly seed: number;
  /** Control by which the code is broken on purpose, and which the run has to show. */
  readonly control?: Control;
}

const options = readOptions(
  {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    seed: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    parallel: { type: 'string', default: String(availableParallelism()) },
    list: { type: 'boolean', default: false },
  },
  USAGE,
);
/** Limit of plays for a schedule that proves nothing, because the machine stalls too much. */
const MOST_TRIES = 3;
const SHOWN_VIOLATIONS = 10;
const FOLDER = 'node_modules/.cache/campaign';

const say = (text: string): boolean => process.stdout.write(`${text}\n`);

function planRuns(): PlannedRun[] {
  const fits = ({ name, quick }: { name: string; quick?: true }): boolean =>
    (!options.quick || quick === true) && name.includes(options.only);
  const firstSeed =
    options.seed === undefined
      ? Math.floor(Math.random() * 1_000_000)
      : positiveInteger('seed', options.seed);
  const seeds = Array.from(
    { length: positiveInteger('seeds', options.seeds) },
    (_, index) => firstSeed + index,
  );
  return [
    ...seeds.flatMap((seed) => SCHEDULES.filter(fits).map((schedule) => ({ schedule, seed }))),
    ...CONTROLS.filter(fits).map((control) => {
      const schedule = SCHEDULES.find(({ name }) => name === control.schedule);
      if (!schedule) throw new Error(`There is no schedule '${control.schedule}'`);
      return { schedule, seed: firstSeed, control };
    }),
  ];
}

/** Says what became of the run; false when it failed. A run that proves nothing is repeated, one that broke a promise never. */
async function carryOut({ schedule, seed, control }: PlannedRun): Promise<boolean> {
  const name = control ? `control ${control.name} in '${schedule.name}'` : schedule.name;
  const again = `npm run faults -- --only '${(control ?? schedule).name}' --seed ${seed}`;
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await runSchedule(schedule, seed, control?.edits ?? []);
      const noticed = result.violations.find(({ rule }) => control?.caughtBy.includes(rule));
      if (noticed === undefined && provesNothing(result) && tries < MOST_TRIES) continue;
      const failure = control ? (noticed ? undefined : 'not noticed') : whatFailed(result);
      const figures = control ? `noticed by ${noticed?.rule ?? 'nothing'}` : rowOf(result);
      say(`| ${failure === undefined ? 'ok' : 'FAILED'} | ${name} | ${seed} | ${figures} |`);
      if (failure === undefined) return true;
      say(`${failure}\nHistory: ${keepHistory(name, seed, result.history)}\nAgain: ${again}`);
      return false;
    } catch (error) {
      const why = error instanceof Error ? error.stack : String(error);
      say(`| FAILED | ${name} | ${seed} | could not be carried out: ${why}`);
      return false;
    }
  }
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

/** The figures of a run, as in docs/fault-campaign.md. */
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

/** Writes one event a line. Returns where. */
function keepHistory(name: string, seed: number, history: readonly object[]): string {
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, `${`${name} ${seed}`.replaceAll(/[^a-z0-9-]+/gi, '-')}.jsonl`);
  writeFileSync(path, history.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return path;
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
  if (options.list) {
    for (const { name, what } of SCHEDULES) say(`${name}: ${what}`);
    for (const { name, claim } of CONTROLS) say(`control ${name}: ${claim}`);
    return;
  }
  const plan = planRuns();
  if (plan.length === 0) refuse(`nothing has '${options.only}' in its name`);
  await installSqlite();
  const startedAtMs = performance.now();
  say(`|  | schedule | seed | ${FIGURES.join(' | ')} |`);
  say(`| -- | -- | -- | ${FIGURES.map(() => '--').join(' | ')} |`);
  const beside = plan.filter(({ schedule }) => schedule.alone !== true);
  const alone = plan.filter(({ schedule }) => schedule.alone === true);
  const failed =
    (await runAll(beside, positiveInteger('parallel', options.parallel))) +
    (await runAll(alone, 1));
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(1);
  say(`\n${plan.length} runs in ${minutes} min, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

await main();
