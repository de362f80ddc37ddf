import { describe, expect, it } from '@jest/globals';
import { runCampaign } from './campaign.ts';
import { withoutFaults } from './minimise.ts';
import { FAMILIES, planOf } from './families/draw-plan.ts';
import { simulate } from './simulation.ts';

async function traceOf(seed: number): Promise<string> {
  const { trace } = await simulate(planOf(seed), { trace: true });
  return trace.join('\n');
}

describe('A run', () => {
  it.each([1, 2, 3, 4, 5])(
    'of seed %d is the same, byte by byte, when it is run again',
    async (seed) => {
      const trace = await traceOf(seed);
      expect(trace.length).toBeGreaterThan(10_000);
      expect(await traceOf(seed)).toBe(trace);
    },
  );

  it('is the same in another process', async () => {
    const { trace, crashes } = await runCampaign({ from: 6, seeds: 1, trace: true });
    expect(crashes).toEqual([]);
    expect(trace.join('\n')).toBe(await traceOf(6));
  }, 60_000);

  it('of another seed is another one', async () => {
    expect(await traceOf(1)).not.toBe(await traceOf(2));
  });

  it('can be run again without some of its faults, which then do not happen', async () => {
    const seed = [...Array(100).keys()].find((candidate) => planOf(candidate).faults.length > 4)!;
    const plan = planOf(seed);
    const fewer = withoutFaults(plan, new Set([0, 2]));
    expect(fewer.faults).toEqual(plan.faults.filter((_, number) => number !== 0 && number !== 2));
    const { trace } = await simulate(fewer, { trace: true });
    expect(trace.filter((line) => /fault \d+: /.test(line))).toHaveLength(fewer.faults.length);
  });

  it('comes from every family of assumptions', () => {
    const drawn = new Set([...Array(200).keys()].map((seed) => planOf(seed).family));
    expect(drawn).toEqual(new Set(FAMILIES));
  });
});
