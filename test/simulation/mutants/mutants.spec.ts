import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { runCampaign } from '../campaign.ts';
import { MUTANTS } from './mutants.ts';

/** Number of runs from its seed on within which every mutant must be caught; they are in the first until a change moves them. */
const SEEDS = 500;
const LIMIT_MS = 600_000;
/** `npm test` runs every seventh, `npm run test:stress` all. */
const STEP = Number(process.env.SIMULATION_STEP ?? 1);

describe('The simulation catches', () => {
  it.each(MUTANTS.filter((_, index) => index % STEP === 0))(
    '$name: $claim',
    async ({ edits, caughtBy, family, from }) => {
      const result = await runCampaign({
        from,
        seeds: SEEDS,
        // The first run decides; what a second process does beside it is thrown away.
        workers: 1,
        edits,
        ...(family && { family }),
        stopAt: ({ violations }) => violations.some(({ rule }) => caughtBy.includes(rule)),
      });
      expect(result.crashes).toEqual([]);
      const rules = result.failures.flatMap(({ violations }) => violations.map(({ rule }) => rule));
      expect(rules.filter((rule) => caughtBy.includes(rule))).not.toEqual([]);
    },
    LIMIT_MS,
  );

  it.each(MUTANTS.flatMap(({ name, edits }) => edits.map((edit) => ({ name, ...edit }))))(
    '$name only as long as its text is in $file exactly once',
    ({ file, find }) => {
      expect(readFileSync(file, 'utf8').split(find)).toHaveLength(2);
    },
  );
});
