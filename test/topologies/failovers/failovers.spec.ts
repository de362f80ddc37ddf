import { expect, it } from '@jest/globals';
import { runPlan, SCHEDULES } from './plan.ts';

/** A quick part of `npm run failovers`: a lane for each schedule, side by side. Other libraries are left out. */
it('no real failover gives a lock to a second holder, a lower token or a stale write, and a shorter guard is seen to', async () => {
  const quick = ['one address', 'sentinel', 'sentinel, partition', 'cluster', 'control: guard off'];
  const schedules = SCHEDULES.filter(({ name }) => quick.includes(name));
  const said: string[] = [];
  const settings = { runs: 2, seed: 1, lanes: schedules.length };
  const isGood = await runPlan(schedules, settings, (text) => said.push(text));
  expect({ isGood, said }).toEqual({ isGood: true, said });
});
