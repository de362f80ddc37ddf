import { availableParallelism } from 'node:os';
import { positiveInteger, readOptions, refuse } from '../support/command-line.ts';
import { installSqlite } from '../support/databases/install-sqlite.ts';
import { ProgressBar } from '../support/progress-bar.ts';
import { CONTROLS } from './controls.ts';
import { planRuns } from './plan-runs.ts';
import { describeFinishedRun } from './report/describe-run.ts';
import { resultsTable } from './report/results-table.ts';
import { runCampaign, type FinishedRun } from './run/campaign.ts';
import { SCHEDULES } from './schedules/index.ts';

const USAGE = `
Usage: npm run faults -- [options]

Real faults on real servers and processes: every schedule and every control, once.

  --quick                the selection that every change has to pass
  --only <text>          what has this text in its name
  --seed <number>        the first seed; by chance when left out
  --seeds <number>       how often each schedule is run, with one seed after the other (1)
  --without-controls     no run with the code broken on purpose
  --parallel <number>    how many runs at once (one for each core)
  --list                 names all schedules and controls, and runs none
  --help                 prints this
`;

const options = readOptions(
  {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    seed: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    parallel: { type: 'string', default: String(availableParallelism()) },
    'without-controls': { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
  USAGE,
);

async function main(): Promise<void> {
  if (options.list) {
    for (const { name, what } of SCHEDULES) process.stdout.write(`${name}: ${what}\n`);
    for (const { name, claim } of CONTROLS) process.stdout.write(`control ${name}: ${claim}\n`);
    return;
  }
  const startedAtMs = performance.now();
  const { quick, only, seed } = options;
  const plan = planRuns({
    quick,
    only,
    firstSeed:
      seed === undefined ? Math.floor(Math.random() * 1_000_000) : positiveInteger('seed', seed),
    seeds: positiveInteger('seeds', options.seeds),
    controls: !options['without-controls'],
  });
  if (plan.length === 0) refuse(`nothing has '${only}' in its name`);
  await installSqlite();
  const bar = new ProgressBar(plan.length);
  let failures = 0;
  const parallel = positiveInteger('parallel', options.parallel);
  const finished = await runCampaign(plan, parallel, (run, done) => {
    if (run.failure !== undefined) failures += 1;
    describe(run, bar);
    bar.show(done, `${failures} failed`);
  });
  bar.end();
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(1);
  process.stdout.write(
    `\n${resultsTable(finished)}\n\n${finished.length} runs in ${minutes} min, ${failures} failed\n`,
  );
  process.exitCode = failures > 0 ? 1 : 0;
}

/** Prints a line for each run where there is no bar, and more than a line only for what failed. */
function describe(run: FinishedRun, bar: ProgressBar): void {
  if (run.failure === undefined && bar.isShown) return;
  bar.end();
  process.stdout.write(`${describeFinishedRun(run)}\n`);
}

await main();
