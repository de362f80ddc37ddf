import { positiveInteger, readOptions, refuse } from '../support/command-line.ts';
import { ProgressBar } from '../support/progress-bar.ts';
import { describeFailure, runCampaign } from './campaign.ts';
import { MUTANTS } from './mutants/mutants.ts';
import type { Mutant } from './mutants/mutant.ts';
import { DIRECTED_FAMILIES, FAMILIES } from './families/plan.ts';
import type { FailureReport } from './worker.ts';

const ALL_FAMILIES = [...FAMILIES, ...DIRECTED_FAMILIES];

const USAGE = `
Usage: npm run simulate -- [options]

The shipped core under simulated faults, from seeds, in virtual time.

  --seeds <number>     how many runs (1000)
  --from <number>      the first seed (1)
  --seed <number>      one run again, exactly
  --trace              prints what happened in it
  --without <list>     leaves out these faults of its plan, by their numbers: 3,7
  --family <name>      only runs of this family: ${ALL_FAMILIES.join(', ')}
  --mutant <name>      the code broken on purpose, up to the first run that shows it
  --workers <number>   how many processes at once (one for each core)
  --help               prints this
`;

const values = readOptions(
  {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    without: { type: 'string' },
    trace: { type: 'boolean', default: false },
    mutant: { type: 'string' },
    family: { type: 'string' },
    workers: { type: 'string' },
  },
  USAGE,
);

async function main(): Promise<void> {
  const mutant =
    values.mutant === undefined ? undefined : MUTANTS.find(({ name }) => name === values.mutant);
  if (values.mutant !== undefined && mutant === undefined) {
    refuse(
      `no mutant '${values.mutant}'; there are: ${MUTANTS.map(({ name }) => name).join(', ')}`,
    );
  }
  const named = values.family ?? mutant?.family;
  const family = ALL_FAMILIES.find((name) => name === named);
  if (named !== undefined && family === undefined) refuse(`no family '${named}'`);
  const seeds = values.seed === undefined ? positiveInteger('seeds', values.seeds) : 1;
  const startedAtMs = Date.now();
  const bar = new ProgressBar(seeds);
  const result = await runCampaign({
    from: positiveInteger(values.seed ? 'seed' : 'from', values.seed ?? values.from),
    seeds,
    ...(values.workers !== undefined && { workers: positiveInteger('workers', values.workers) }),
    ...(mutant && { edits: mutant.edits, stopAt: caught(mutant), minimise: false }),
    ...(family && { family }),
    without: values.without?.split(',').map(Number) ?? [],
    trace: values.trace,
    onProgress: (done, failures) => bar.show(done, `${failures} failed`),
  });
  bar.end();
  for (const line of result.trace) process.stdout.write(`${line}\n`);
  for (const failure of result.failures.slice(0, 3)) {
    process.stdout.write(`\n${describeFailure(failure)}\n`);
  }
  for (const crash of result.crashes) process.stdout.write(`A worker crashed: ${crash}\n`);
  const seconds = ((Date.now() - startedAtMs) / 1000).toFixed(1);
  const counts = Object.entries(result.counts).map(([name, count]) => `${count} ${name}`);
  process.stdout.write(
    `\n${result.runs} runs, ${result.events} events in ${seconds} s: ${counts.join(', ')}\n` +
      `${result.failures.length} runs broke a promise${result.failures.length > 0 ? `: seeds ${result.failures.map(({ seed }) => seed).join(', ')}` : ''}\n`,
  );
  const failed = result.failures.length > 0 || result.crashes.length > 0 || result.runs < seeds;
  process.exitCode = failed === (mutant === undefined) ? 1 : 0;
}

function caught({ caughtBy }: Mutant): (failure: FailureReport) => boolean {
  return ({ violations }) => violations.some(({ rule }) => caughtBy.includes(rule));
}

await main();
