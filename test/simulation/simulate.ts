import { availableParallelism } from 'node:os';
import { positiveInteger, readOptions, refuse } from '../support/command-line.ts';
import { describeFailure, runSeeds } from './run-seeds.ts';
import { MUTANTS } from './mutants/mutants.ts';
import type { Mutant } from './mutants/mutants.ts';
import { DIRECTED_FAMILIES, FAMILIES } from './families/draw-plan.ts';
import type { Family } from './families/plan.ts';
import type { RunResult } from './simulation.ts';

const USAGE = `
Usage: npm run simulate -- [options]

Runs the shipped core in simulated processes, networks, servers and clocks. The same seed gives the same run.

  --seeds <n>        how many runs (1000); without --family a fiftieth more of each that no seed draws
  --from <n>         the first seed (1)
  --seed <n>         one run
  --trace            prints what happens in it
  --family <name>    only runs of one family: ${[...new Set([...FAMILIES, ...DIRECTED_FAMILIES])].join(', ')}
  --mutant <name>    the code broken on purpose (test/simulation/mutants/*.txt), with seeds from its own on
  --mutants          only every mutant, in its own seed, by which it must be caught
  --workers <n>      processes (as many as there are cores)
  --help             prints this
`;

const values = readOptions(
  {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string' },
    seed: { type: 'string' },
    trace: { type: 'boolean', default: false },
    mutant: { type: 'string' },
    mutants: { type: 'boolean', default: false },
    family: { type: 'string' },
    workers: { type: 'string' },
  },
  USAGE,
);

/** Item that has this name, if one was given. */
function find<Item>(
  what: string,
  name: string | undefined,
  items: readonly Item[],
  nameOf: (item: Item) => string,
): Item | undefined {
  const found = items.find((item) => nameOf(item) === name);
  return name === undefined || found !== undefined
    ? found
    : refuse(`There is no ${what} '${name}'`);
}

async function main(): Promise<void> {
  if (values.mutants) {
    process.exitCode = (await areAllCaught()) ? 0 : 1;
    return;
  }
  const mutant = find('mutant', values.mutant, MUTANTS, ({ name }) => name);
  const families = [...FAMILIES, ...DIRECTED_FAMILIES];
  const family = find('family', values.family ?? mutant?.family, families, (name) => name);
  const number = (option: 'seeds' | 'from' | 'seed' | 'workers'): number =>
    positiveInteger(option, values[option] ?? String(mutant?.from ?? 1));
  const seeds = values.seed === undefined ? number('seeds') : 1;
  const startedAtMs = performance.now();
  const play = async (count: number, only: Family | undefined): Promise<boolean> => {
    const result = await runSeeds({
      from: number(values.seed === undefined ? 'from' : 'seed'),
      seeds: count,
      ...(values.workers !== undefined && { workers: number('workers') }),
      ...(mutant && { edits: mutant.edits, stopAt: caught(mutant) }),
      ...(only && { family: only }),
      trace: values.trace,
    });
    for (const line of result.trace) process.stdout.write(`${line}\n`);
    for (const failure of result.failures.slice(0, 3))
      process.stdout.write(`\n${describeFailure(failure, only)}\n`);
    for (const crash of result.crashes) process.stdout.write(`A worker crashed: ${crash}\n`);
    const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
    const counts = Object.entries(result.counts).map(([name, sum]) => `${sum} ${name}`);
    const broken = result.failures.map(({ seed }) => seed).join(', ');
    process.stdout.write(
      `\n${only ?? 'all families'}: ${result.runs} runs, ${result.events} events after ${seconds} s: ${counts.join(', ')}\n` +
        `${result.failures.length} runs broke a promise${broken && `: seeds ${broken}`}\n`,
    );
    return result.failures.length > 0 || result.crashes.length > 0 || result.runs < count;
  };
  let failed = await play(seeds, family);
  if (family === undefined && values.seed === undefined && mutant === undefined)
    for (const each of DIRECTED_FAMILIES)
      failed = (await play(Math.ceil(seeds / 50), each)) || failed;
  process.exitCode = failed === (mutant === undefined) ? 1 : 0;
}

/** Plays each mutant in the one run that its block names, and says which of them no rule noticed there. */
async function areAllCaught(): Promise<boolean> {
  const left = MUTANTS.values();
  const notCaught: string[] = [];
  const lane = async (): Promise<void> => {
    for (const mutant of left) {
      const { name, from, edits, family } = mutant;
      const only = { from, seeds: 1, workers: 1, edits, ...(family && { family }) };
      const { crashes, failures } = await runSeeds(only);
      if (crashes.length === 0 && failures.some(caught(mutant))) continue;
      notCaught.push(name);
      const rules = failures.flatMap(({ violations }) => violations.map(({ rule }) => rule));
      const seen = [...new Set(rules), ...crashes].join(', ') || 'nothing';
      process.stdout.write(
        `Mutant ${name} is not caught in seed ${from}: expected ${mutant.caughtBy.join(' or ')}, saw ${seen}\n` +
          `The seeds after it: npm run simulate -- --mutant ${name}\n`,
      );
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
  process.stdout.write(
    `${MUTANTS.length - notCaught.length} of ${MUTANTS.length} mutants caught\n`,
  );
  return notCaught.length === 0;
}

function caught({ caughtBy }: Mutant): (failure: RunResult) => boolean {
  return ({ violations }) => violations.some(({ rule }) => caughtBy.includes(rule));
}

await main();
