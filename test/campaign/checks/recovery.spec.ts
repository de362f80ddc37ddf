import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent } from '../campaign-event.ts';
import {
  brokenRules,
  granted,
  grantedTooLate,
  held,
  judge,
  measure,
  outage,
  released,
  releaseAnswered,
  stalled,
  waiter,
  WAITER,
  withGap,
} from './written-events.ts';

describe('an outage', () => {
  const guard = { from: 2_000, to: 3_000 };
  const lost = outage(1_000, 3_000);
  /** What the servers knew is gone as well. */
  const forgot = outage(1_000, 3_000, { guard });
  const rules = (...events: CampaignEvent[]) => brokenRules([...events, ...WAITER]);

  it('excuses everything, and what follows it as long as recovery may take', () => {
    expect(rules(...withGap(3_000), lost)).toEqual([]);
    expect(rules(...withGap(3_001), lost)).toEqual(['slow-recovery']);
    expect(rules(...withGap(4_000), outage(1_000, 30_000))).toEqual([]);
  });

  it('with a guard excuses that too', () => {
    expect(rules(...withGap(4_000), forgot)).toEqual([]);
    expect(rules(...withGap(4_001), forgot)).toEqual(['slow-recovery']);
  });

  it('is followed by the promise of every day', () => {
    expect(rules(...withGap(3_501), lost)).toEqual(['idle-too-long', 'slow-recovery']);
    const [first, second] = judge([...withGap(3_001), ...WAITER, lost]).violations;
    expect([first?.at, second]).toEqual([4_001, undefined]);
  });

  it('is measured up to the first grant', () => {
    expect(measure([...withGap(3_700), ...WAITER, forgot]).longestRecoveryMs).toBe(700);
  });

  it('is over for a key that is still held, when it is free', () => {
    const kept = (gapMs: number) => [
      granted('a', 0, { validUntil: 4_000 }),
      released('a', 3_500),
      releaseAnswered('a', 3_501),
      ...withGap(2_500 + gapMs).slice(3),
    ];
    expect(rules(...kept(1_000), lost)).toEqual([]);
    expect(rules(...kept(1_001), lost)).toEqual(['idle-too-long', 'slow-recovery']);
  });

  it('asks for nothing where no one asks all the time', () => {
    const pause = [...waiter('w', 10, 3_100), ...waiter('x', 3_200, 3_300)];
    expect(brokenRules([...withGap(4_900), ...pause, lost])).toEqual([]);
    const late = waiter('x', 3_001, 4_400);
    expect(brokenRules([...withGap(4_900), ...late, lost])).toEqual([]);
  });

  it('asks for nothing where somebody began to ask only after it, while the key was held', () => {
    const kept = [
      granted('a', 0, { validUntil: 4_000 }),
      released('a', 3_400),
      releaseAnswered('a', 3_401),
    ];
    const late = (from: number) => waiter('w', from, 4_490);
    expect(brokenRules([...kept, ...late(3_200), lost])).toEqual([]);
    expect(brokenRules([...kept, ...late(3_000), lost])).toEqual(['slow-recovery']);
  });

  it('is over with a grant while servers may not vote yet: enough of them could', () => {
    const early = held('c', 3_500, 3_600, { token: 1.5 });
    expect(rules(...early, ...withGap(4_300), forgot)).toEqual([]);
    expect(rules(...withGap(4_300), forgot)).toEqual(['slow-recovery']);
  });

  it('is not over with a lock that was over already', () => {
    const dead = grantedTooLate('d', 3_100, 2_000);
    const events = [...withGap(3_001), ...WAITER, lost, dead];
    expect(brokenRules(events, { lossToleranceMs: 9_999 })).toEqual(['slow-recovery']);
  });

  it('may be followed by the next one', () => {
    expect(rules(...withGap(4_900), lost, outage(3_900, 5_000))).toEqual([]);
  });

  it('is excused like every gap', () => {
    const stall = stalled('process-v', 3_100, 3_160);
    const other = waiter('v', 10, 5_900);
    expect(rules(...withGap(3_120), lost, ...other, stall)).toEqual([]);
    expect(rules(...withGap(3_121), lost, ...other, stall)).toEqual(['slow-recovery']);
  });

  it('before the measuring counts for nothing', () => {
    const early = [...waiter('w', -600, 900), outage(-500, -400)];
    expect(measure(early).longestRecoveryMs).toBe(0);
  });
});

describe('after a majority forgot', () => {
  const forgot = outage(990, 1_000, { guard: { from: 1_000, to: 2_000 } });
  const grant = (startedAt: number, at: number) => held('a', at, at + 10, { startedAt });

  it.each<[string, number, number, string[]]>([
    ['no one is granted', 1_001, 1_999.9, ['granted-during-guard']],
    ['but who began before', 999.9, 1_002, []],
    ['and everybody from the end of the guard on', 1_500, 2_000.1, []],
  ])('%s', (_, startedAt, at, rules) => {
    expect(brokenRules([forgot, ...grant(startedAt, at)])).toEqual(rules);
  });

  it('somebody is granted where others than a majority forgot', () => {
    expect(brokenRules([{ ...forgot, nodes: [0, 1] }, ...grant(1_001, 1_500)])).toEqual([]);
    const others = { ...forgot, nodes: [2] };
    expect(brokenRules([{ ...forgot, nodes: [0, 1] }, others, ...grant(1_001, 1_500)])).toEqual([
      'granted-during-guard',
    ]);
  });

  it('a key may lie free for the guard and the recovery', () => {
    expect(brokenRules([...withGap(2_000), ...WAITER, forgot])).toEqual([]);
    expect(brokenRules([...withGap(2_001), ...WAITER, forgot])).toEqual(['slow-recovery']);
  });
});
