import { MUTANTS, type Mutant } from '../test/simulation/mutants/mutants.ts';
import { runSeeds } from '../test/simulation/run-seeds.ts';
import { chosen, MOST_PLAYS, readPartOptions, say, sayHow, someOf } from './part-options.ts';

/** The number of seeds in one play. */
const SEEDS = 500;
/** The share of the mutants that a quick campaign plays: one in so many, others with every seed. */
const QUICK_STEP = 7;

const options = readPartOptions();

/** Says with which seed the simulation notices the mutant; false when it does not. */
async function isNoticed({ name, edits, caughtBy, family }: Mutant): Promise<boolean> {
  for (let play = 0; play < MOST_PLAYS; play += 1) {
    const { crashes, failures } = await runSeeds({
      from: options.seed + play * SEEDS,
      seeds: SEEDS,
      edits,
      ...(family && { family }),
      stopAt: ({ violations }) => violations.some(({ rule }) => caughtBy.includes(rule)),
    });
    for (const crash of crashes) say(`${name}: a worker crashed: ${crash}`);
    if (crashes.length > 0) return false;
    const noticed = failures.find(({ violations }) =>
      violations.some(({ rule }) => caughtBy.includes(rule)),
    );
    if (!noticed) continue;
    say(`${name}: noticed after ${noticed.seed - options.seed + 1} seeds`);
    return true;
  }
  say(`FAILED: ${name}: not noticed in ${MOST_PLAYS * SEEDS} seeds`);
  return false;
}

const isDue = (_: Mutant, index: number): boolean =>
  !options.isQuick || options.only !== '' || (index + options.seed) % QUICK_STEP === 0;
const mutants = someOf(chosen(MUTANTS, options.only).filter(isDue), options.only);
let failed = 0;
for (const mutant of mutants) {
  if (await isNoticed(mutant)) continue;
  failed += 1;
  sayHow(`mutants/${mutant.name}`, options);
}
say(`${failed} of ${mutants.length} mutants were not noticed`);
process.exitCode = failed > 0 ? 1 : 0;
