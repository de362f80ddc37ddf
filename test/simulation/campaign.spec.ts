import { describe, expect, it } from '@jest/globals';
import { describeFailure, runCampaign } from './campaign.ts';

// `npm run simulate -- --seeds N` runs any number; here as many as fit into an ordinary run of the tests.
const SEEDS = Number(process.env.SIMULATION_SEEDS ?? 500);
const LIMIT_MS = 60_000 + SEEDS * 200;

describe('The shipped core in simulated processes, networks, servers and clocks', () => {
  it(
    `keeps every promise in ${SEEDS} runs full of faults`,
    async () => {
      const result = await runCampaign({ from: 1, seeds: SEEDS });
      expect(result.crashes).toEqual([]);
      expect(result.failures.map(describeFailure)).toEqual([]);
      expect(result.runs).toBe(SEEDS);
      // Runs in which nothing happens would prove nothing.
      for (const [name, count] of Object.entries(result.counts)) {
        expect([name, count > SEEDS / 20]).toEqual([name, true]);
      }
    },
    LIMIT_MS,
  );
});
