import { describe, expect, it } from '@jest/globals';
import { CONTROLS } from '../controls.ts';
import { SCHEDULES } from '../schedules/index.ts';
import { runCampaign } from './campaign.ts';
import type { RunResult } from './run-schedule.ts';

type Played = { readonly rules?: readonly string[]; readonly withoutEffect?: string };

/** Plays one run of which the tries show this, the last again and again. */
async function finishedOf(tries: readonly Played[], more: object = {}) {
  let played = 0;
  const play = () => {
    const { rules = [], withoutEffect } = tries[Math.min(played, tries.length - 1)]!;
    played += 1;
    const violations = rules.map((rule) => ({ rule, message: rule }));
    return Promise.resolve({ violations, withoutEffect, measures: {}, history: [] });
  };
  const plan = [{ schedule: SCHEDULES[0]!, seed: 1, ...more }];
  const [run] = await runCampaign(
    plan,
    1,
    () => undefined,
    play as unknown as () => Promise<RunResult>,
  );
  return { failure: run!.failure, tries: run!.tries };
}

describe('runs of a campaign', () => {
  it('go on beside each other, except those that need the machine', async () => {
    let playing = 0;
    const beside: number[] = [];
    const play = async (): Promise<RunResult> => {
      beside.push((playing += 1));
      await new Promise((resolve) => setImmediate(resolve));
      playing -= 1;
      return { violations: [] } as unknown as RunResult;
    };
    const schedules = SCHEDULES.toSorted((a, b) => Number(b.alone ?? 0) - Number(a.alone ?? 0));
    const plan = [schedules[0]!, schedules[0]!, ...schedules.slice(-4)].map((schedule, seed) => {
      return { schedule, seed };
    });
    const finished = await runCampaign(plan, 2, () => undefined, play);
    expect(beside).toEqual([1, 2, 2, 2, 1, 1]);
    expect(finished.map(({ seed }) => seed)).toEqual([0, 1, 2, 3, 4, 5]);
  });
});

describe('a run', () => {
  const nothing = { rules: ['nothing-happened'] };

  it('that proves nothing is played again, three times in all, and then fails', async () => {
    expect(await finishedOf([{}])).toEqual({ failure: undefined, tries: 1 });
    expect(await finishedOf([nothing, { withoutEffect: 'no loss' }, {}])).toEqual({
      failure: undefined,
      tries: 3,
    });
    expect(await finishedOf([nothing])).toEqual({ failure: '1 violations', tries: 3 });
    expect(await finishedOf([{ withoutEffect: 'no loss' }])).toEqual({
      failure: 'without effect: no loss',
      tries: 3,
    });
  });

  it('that broke a promise is never played again', async () => {
    const broken = { rules: ['nothing-happened', 'false-outage'] };
    expect(await finishedOf([broken, {}])).toEqual({ failure: '2 violations', tries: 1 });
    expect(await finishedOf([nothing, broken, {}])).toEqual({ failure: '2 violations', tries: 2 });
  });

  it('of a control is played once', async () => {
    const control = CONTROLS[0]!;
    const unnoticed = { failure: `not caught: ${control.claim}`, tries: 1 };
    expect(await finishedOf([nothing, { rules: control.caughtBy }], { control })).toEqual(
      unnoticed,
    );
  });
});
