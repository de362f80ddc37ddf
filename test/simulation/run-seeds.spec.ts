import { describe, expect, it } from '@jest/globals';
import { describeFailure, runSeeds } from './run-seeds.ts';
import { DIRECTED_FAMILIES } from './families/draw-plan.ts';

/** What fits into an ordinary run of the tests; `npm run simulate` plays any number, from the same seed on. */
const SEEDS = 100;
/** Runs of each directed family. */
const DIRECTED_SEEDS = 20;

describe('The shipped core in simulated processes, networks, servers and clocks', () => {
  it(`keeps every promise in ${SEEDS} runs full of faults`, async () => {
    const result = await runSeeds({ from: 1, seeds: SEEDS });
    expect(result.crashes).toEqual([]);
    expect(result.failures.map((run) => describeFailure(run))).toEqual([]);
    expect(result.runs).toBe(SEEDS);
    // Runs in which nothing happens would prove nothing.
    for (const [name, count] of Object.entries(result.counts)) {
      expect([name, count > SEEDS / 20]).toEqual([name, true]);
    }
  });

  it.each(DIRECTED_FAMILIES)('keeps every promise at its limits: family %s', async (family) => {
    const seeds = DIRECTED_SEEDS;
    const result = await runSeeds({ from: 1, seeds, family });
    expect(result.crashes).toEqual([]);
    expect(result.failures.map((run) => describeFailure(run, family))).toEqual([]);
    expect(result.runs).toBe(seeds);
    // Nearly every round is played to its end, in which somebody gets the key.
    expect(result.counts.grants).toBeGreaterThan(10 * seeds);
    const aimed = {
      boundary: result.counts.quarantines,
      reballots: result.counts.reballots,
      turns: result.counts.jointMessages,
      permits: result.counts.jointMessages,
      replacers: Math.min(result.counts.losses, result.counts.busy),
      failover: result.counts.quarantines,
    };
    expect(aimed[family]).toBeGreaterThan(5 * seeds);
  });
});
