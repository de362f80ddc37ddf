import { parseArgs } from 'node:util';
import { ProgressBar } from '../support/progress-bar.ts';
import { describeFailure, runCampaign } from './campaign.ts';
import { MUTANTS } from './mutants/mutants.ts';
import type { Mutant } from './mutants/mutants.ts';
import { DIRECTED_FAMILIES, FAMILIES } from './families/draw-plan.ts';
import type { FailureReport } from './worker.ts';

// npm run simulate -- --seeds 100000 --from 1      any number of runs, with progress
// npm run simulate -- --seed 4711 --trace          one run again, exactly
// npm run simulate -- --mutant no-drift            the code broken on purpose

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    without: { type: 'string' },
    trace: { type: 'boolean', default: false },
    mutant: { type: 'string' },
    family: { type: 'string' },
    workers: { type: 'string' },
  },
});

async function main(): Promise<void> {
  const mutant =
    values.mutant === undefined ? undefined : MUTANTS.find(({ name }) => name === values.mutant);
  if (values.mutant !== undefined && mutant === undefined) {
    throw new Error(
      `No mutant '${values.mutant}'; there are: ${MUTANTS.map(({ name }) => name).join(', ')}`,
    );
  }
  const family = [...FAMILIES, ...DIRECTED_FAMILIES].find(
    (name) => name === (values.family ?? mutant?.family),
  );
  const seeds = values.seed === undefined ? Number(values.seeds) : 1;
  const startedAtMs = Date.now();
  const bar = new ProgressBar(seeds);
  const result = await runCampaign({
    from: Number(values.seed ?? values.from),
    seeds,
    ...(values.workers !== undefined && { workers: Number(values.workers) }),
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
