import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent } from '../campaign-event.ts';
import {
  brokenRules,
  granted,
  held,
  judge,
  mark,
  measure,
  released,
  releaseAnswered,
  stalled,
  waiter,
  WAITER,
  withGap,
} from './written-events.ts';

describe('an outage', () => {
  const lostAt = mark(1_000, { mark: 'quorum-lost' });
  const healed = (at: number, guardMs = 0) => mark(at, { mark: 'quorum-healed', guardMs });
  const rules = (...events: CampaignEvent[]) => brokenRules([...events, ...WAITER]);

  it('excuses everything, and what follows it as long as recovery may take', () => {
    expect(rules(...withGap(3_000), lostAt, healed(3_000))).toEqual([]);
    expect(rules(...withGap(3_001), lostAt, healed(3_000))).toEqual(['slow-recovery']);
    expect(rules(...withGap(4_000), lostAt)).toEqual([]);
  });

  it('with a guard excuses that too', () => {
    expect(rules(...withGap(4_000), lostAt, healed(3_000, 1_000))).toEqual([]);
    expect(rules(...withGap(4_001), lostAt, healed(3_000, 1_000))).toEqual(['slow-recovery']);
  });

  it('is followed by the promise of every day', () => {
    expect(rules(...withGap(3_501), lostAt, healed(3_000))).toEqual([
      'idle-too-long',
      'slow-recovery',
    ]);
    const [first, second] = judge([...withGap(3_001), ...WAITER, lostAt, healed(3_000)]).violations;
    expect([first?.at, second]).toEqual([4_001, undefined]);
  });

  it('is measured up to the first grant', () => {
    const events = [...withGap(2_700), ...WAITER, lostAt, healed(3_000, 200)];
    expect(measure(events).longestRecoveryMs).toBe(500);
  });

  it('is over for a key that is still held, when it is free', () => {
    const kept = (gapMs: number) => [
      granted('a', 0, { validUntil: 4_000 }),
      released('a', 3_500),
      releaseAnswered('a', 3_501),
      ...withGap(2_500 + gapMs).slice(3),
    ];
    expect(rules(...kept(1_000), lostAt, healed(3_000))).toEqual([]);
    expect(rules(...kept(1_001), lostAt, healed(3_000))).toEqual([
      'idle-too-long',
      'slow-recovery',
    ]);
  });

  it('asks for nothing where nobody asks all the time', () => {
    const pause = [...waiter('w', 10, 3_100), ...waiter('x', 3_200, 3_300)];
    expect(brokenRules([...withGap(4_900), ...pause, lostAt, healed(3_000)])).toEqual([]);
    const late = waiter('x', 3_001, 4_400);
    expect(brokenRules([...withGap(4_900), ...late, lostAt, healed(3_000)])).toEqual([]);
  });

  it('asks for nothing where somebody began to ask only after it, while the key was held', () => {
    const kept = [
      granted('a', 0, { validUntil: 4_000 }),
      released('a', 3_400),
      releaseAnswered('a', 3_401),
    ];
    const late = (from: number) => waiter('w', from, 4_490);
    expect(brokenRules([...kept, ...late(3_200), lostAt, healed(3_000)])).toEqual([]);
    expect(brokenRules([...kept, ...late(3_000), lostAt, healed(3_000)])).toEqual([
      'slow-recovery',
    ]);
  });

  it('is over with a grant while servers may not vote yet: enough of them could', () => {
    const early = held('c', 3_500, 3_600, { token: 1.5 });
    expect(rules(...early, ...withGap(4_300), lostAt, healed(3_000, 1_000))).toEqual([]);
    expect(rules(...withGap(4_300), lostAt, healed(3_000, 1_000))).toEqual(['slow-recovery']);
  });

  it('is not over with a lock that was over already', () => {
    const dead = granted('d', 3_100, {
      startedAt: 100,
      validUntil: 2_000,
      held: false,
      token: 1.5,
    });
    const events = [...withGap(3_001), ...WAITER, lostAt, healed(3_000), dead];
    expect(brokenRules(events, { lossToleranceMs: 9_999 })).toEqual(['slow-recovery']);
  });

  it('may be followed by the next one', () => {
    const again = mark(3_900, { mark: 'quorum-lost' });
    expect(rules(...withGap(4_900), lostAt, healed(3_000), again, healed(5_000))).toEqual([]);
  });

  it('is excused like every gap', () => {
    const stall = stalled('process-v', 3_100, 3_160);
    const other = waiter('v', 10, 5_900);
    expect(rules(...withGap(3_120), lostAt, healed(3_000), ...other, stall)).toEqual([]);
    expect(rules(...withGap(3_121), lostAt, healed(3_000), ...other, stall)).toEqual([
      'slow-recovery',
    ]);
  });

  it('before the measuring counts for nothing', () => {
    const early = [
      mark(-500, { mark: 'quorum-lost' }),
      mark(-400, { mark: 'quorum-healed', guardMs: 0 }),
    ];
    expect(judge([...waiter('w', -600, 900), ...early]).measures.longestRecoveryMs).toBe(0);
  });
});

describe('after a majority forgot', () => {
  const forgot = mark(1_000, { mark: 'majority-forgot', guardMs: 1_000 });
  const grant = (startedAt: number, at: number) => held('a', at, at + 10, { startedAt });

  it.each<[string, number, number, string[]]>([
    ['nobody is granted', 1_001, 1_999.9, ['granted-during-guard']],
    ['but whoever began before', 1_000, 1_002, []],
    ['and everybody from the end of the guard on', 1_500, 2_000, []],
  ])('%s', (_, startedAt, at, rules) => {
    expect(brokenRules([forgot, ...grant(startedAt, at)])).toEqual(rules);
  });

  it('a key may lie free for the guard and the recovery', () => {
    const events = [...withGap(2_400), ...WAITER, forgot];
    expect(brokenRules(events)).toEqual([]);
    expect(brokenRules([...withGap(2_501), ...WAITER, forgot])).toEqual(['idle-too-long']);
  });
});
