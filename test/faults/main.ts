import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { ProgressBar } from '../support/progress-bar.ts';
import { planRuns } from './plan-runs.ts';
import { describeFinishedRun } from './report/describe-run.ts';
import { keepHistory } from './report/keep-history.ts';
import { resultsPage } from './report/results-page.ts';
import { resultsTable } from './report/results-table.ts';
import { runCampaign, type FinishedRun } from './run/campaign.ts';
import { SCHEDULES } from './schedules/index.ts';

// npm run faults                                  every schedule and every control, once
// npm run faults -- --quick                       the selection for every change
// npm run faults -- --seeds 5                     every schedule five times
// npm run faults -- --only 'frozen' --seed 17     what has this in its name, with this seed
// npm run faults -- --record docs/fault-campaign.md   and write the results down
// npm run faults -- --parallel 4                  so many runs at once (default: one for each core)
// npm run faults -- --list                        what there is

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    seed: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    parallel: { type: 'string', default: String(availableParallelism()) },
    'without-controls': { type: 'boolean', default: false },
    record: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
});

async function main(): Promise<void> {
  if (values.list) {
    for (const { name, what } of SCHEDULES) process.stdout.write(`${name}: ${what}\n`);
    return;
  }
  const startedAtMs = performance.now();
  const plan = planRuns({
    quick: values.quick,
    only: values.only,
    firstSeed: values.seed === undefined ? Math.floor(Math.random() * 1_000_000) : count('seed'),
    seeds: count('seeds'),
    controls: !values['without-controls'],
  });
  const bar = new ProgressBar(plan.length);
  let failures = 0;
  const finished = await runCampaign(plan, count('parallel'), (run, done) => {
    if (run.failure !== undefined) failures += 1;
    tell(run, bar);
    bar.show(done, `${failures} failed`);
  });
  bar.end();
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(1);
  process.stdout.write(
    `\n${resultsTable(finished)}\n\n${finished.length} runs in ${minutes} min, ${failures} failed\n`,
  );
  if (values.record !== undefined) {
    writeFileSync(values.record, await resultsPage(finished, process.argv.slice(2)));
  }
  process.exitCode = failures > 0 ? 1 : 0;
}

/** Where there is no bar, a line for each run; more than a line only for what failed. */
function tell(run: FinishedRun, bar: ProgressBar): void {
  if (run.failure === undefined) {
    if (!bar.isShown) process.stdout.write(`${describeFinishedRun(run)}\n`);
    return;
  }
  bar.end();
  process.stdout.write(`${describeFinishedRun(run)}\n`);
  const path = keepHistory(run);
  if (path !== undefined) process.stdout.write(`Its history: ${path}\n`);
}

function count(option: 'seed' | 'seeds' | 'parallel'): number {
  const number = Number(values[option]);
  if (Number.isSafeInteger(number) && number > 0) return number;
  throw new Error(`--${option} is a positive whole number, not ${String(values[option])}`);
}

await main();
