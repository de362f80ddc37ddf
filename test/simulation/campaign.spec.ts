import { describe, expect, it } from '@jest/globals';
import { describeFailure, runCampaign } from './campaign.ts';
import { DIRECTED_FAMILIES } from './families/draw-plan.ts';

/** Number that fits into an ordinary run of the tests: `npm run simulate -- --seeds N` runs any number, from the same seed on. */
const SEEDS = 100;
/** Number for each directed family, which `npm run simulate` runs only where it is named. */
const DIRECTED_SEEDS = Number(process.env.SIMULATION_SEEDS ?? 100);
const LIMIT_MS = 60_000 + DIRECTED_SEEDS * 1_000;

describe('The shipped core in simulated processes, networks, servers and clocks', () => {
  it(
    `keeps every promise in ${SEEDS} runs full of faults`,
    async () => {
      const result = await runCampaign({ from: 1, seeds: SEEDS });
      expect(result.crashes).toEqual([]);
      expect(result.failures.map((run) => describeFailure(run))).toEqual([]);
      expect(result.runs).toBe(SEEDS);
      // Runs in which nothing happens would prove nothing.
      for (const [name, count] of Object.entries(result.counts)) {
        expect([name, count > SEEDS / 20]).toEqual([name, true]);
      }
    },
    LIMIT_MS,
  );

  it.each(DIRECTED_FAMILIES)(
    'keeps every promise at its limits: family %s',
    async (family) => {
      const seeds = DIRECTED_SEEDS;
      const result = await runCampaign({ from: 1, seeds, family });
      expect(result.crashes).toEqual([]);
      expect(result.failures.map((run) => describeFailure(run, family))).toEqual([]);
      expect(result.runs).toBe(seeds);
      // Nearly every round is played to its end, in which somebody gets the key.
      expect(result.counts.grants).toBeGreaterThan(10 * seeds);
      const aimed = {
        boundary: result.counts.quarantines,
        reballots: result.counts.reballots,
        turns: result.counts.jointMessages,
        failover: result.counts.quarantines,
      };
      expect(aimed[family]).toBeGreaterThan(5 * seeds);
    },
    LIMIT_MS,
  );
});
