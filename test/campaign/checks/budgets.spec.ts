import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent } from '../campaign-event.ts';
import { runLimits } from './run-limits.ts';
import {
  answered,
  asked,
  brokenRules,
  closed,
  granted,
  judge,
  lost,
  mark,
  measure,
  problem,
  released,
  releaseAnswered,
  stalled,
} from './written-events.ts';

const { callOverrunMs, nodeTimeoutMs, releaseMs, closeMs } = runLimits();
const P = 'process-a';
const BUSY = { outcome: 'LOCK_BUSY' } as const;

/** An acquire of process-a, asked for at 1 000. */
function call(waitMs: number, tookMs: number): CampaignEvent[] {
  return [asked('a', 1_000, { waitMs }), answered('a', 1_000 + tookMs, BUSY)];
}

/** A release of process-a, begun at 1 000. */
function release(tookMs: number): CampaignEvent[] {
  return [granted('a', 900), released('a', 1_000), releaseAnswered('a', 1_000 + tookMs)];
}

function close(tookMs: number): CampaignEvent[] {
  return [closed(P, 1_000, 1_000 + tookMs)];
}

/** Each kind of call, its limit, and the rule that it breaks. */
const KINDS: [string, (tookMs: number) => CampaignEvent[], number, string][] = [
  ['an acquire', (tookMs) => call(200, tookMs), 200 + callOverrunMs, 'acquire-over-budget'],
  [
    'an acquire that waits for less than a node timeout',
    (tookMs) => call(0, tookMs),
    nodeTimeoutMs + callOverrunMs,
    'acquire-over-budget',
  ],
  ['a release', release, releaseMs, 'release-over-budget'],
  ['a close', close, closeMs, 'close-over-budget'],
];

describe.each(KINDS)('%s', (_, events, limitMs, rule) => {
  it('may take as long as its limit', () => {
    expect(brokenRules(events(limitMs))).toEqual([]);
  });

  it('may not take longer', () => {
    expect(brokenRules(events(limitMs + 1))).toEqual([rule]);
    const [violation] = judge(events(limitMs + 1)).violations;
    expect(violation).toMatchObject({ process: P, at: 1_000 + limitMs + 1 });
    expect(violation!.message).toContain('process-a');
  });

  it('is excused by a stall of its process, and by several in a row', () => {
    const due = 1_000 + limitMs;
    const stalls = [stalled(P, due - 10, due + 500), stalled(P, due + 600, due + 5_000)];
    const took = limitMs + 5_100;
    expect(brokenRules([...events(took), ...stalls])).toEqual([]);
    expect(brokenRules([...events(took), stalls[0]!])).toEqual([rule]);
  });

  it('is not excused by a stall long before, of another process, or too short', () => {
    const took = limitMs + 500;
    for (const stall of [
      stalled(P, 0, 999),
      stalled('process-b', 1_000, 1_000 + took),
      stalled(P, 1_000 + limitMs + 1, 1_000 + took),
      stalled(P, 1_000, 1_100),
    ]) {
      expect(brokenRules([...events(took), stall])).toEqual([rule]);
    }
  });

  it('is excused while its process was stopped', () => {
    const stop = mark(1_001, { mark: 'worker-stopped', worker: P });
    const resume = mark(9_000, { mark: 'worker-resumed', worker: P });
    expect(brokenRules([...events(8_010), stop, resume])).toEqual([]);
    expect(brokenRules([...events(8_010), resume])).toEqual([rule]);
  });

  it('is excused while its process was blocked, by its own account', () => {
    const block = mark(1_001, { mark: 'worker-blocked', worker: P });
    expect(brokenRules([...events(8_010), block, stalled(P, 1_050, 9_000)])).toEqual([]);
    expect(brokenRules([...events(8_010), block])).toEqual([rule]);
  });
});

describe('an acquire that was asked for while its process did not run', () => {
  it('begins when that ran again: its caller wrote before it called', () => {
    const rules = (from: number, tookMs: number) =>
      brokenRules([
        asked('a', 1_000, { waitMs: 1_000 }),
        stalled(P, from, 3_000),
        answered('a', 3_000 + tookMs, BUSY),
      ]);
    expect(rules(999, 1_000 + callOverrunMs)).toEqual([]);
    expect(rules(999, 1_001 + callOverrunMs)).toEqual(['acquire-over-budget']);
    expect(rules(1_001, 1_000)).toEqual(['acquire-over-budget']);
  });
});

describe('a call that never ends', () => {
  const open = asked('a', 1_000, { waitMs: 100 });
  const lateLife = [asked('b', 9_000, { process: P }), answered('b', 9_001, { process: P })];
  const never = ['call-never-ended'];
  const harmed = (at: number, what: 'killed' | 'stopped' | 'blocked') =>
    mark(at, { mark: `worker-${what}`, worker: P });

  it('breaks a promise when its process went on', () => {
    expect(brokenRules([open, ...lateLife])).toEqual(never);
    expect(judge([open, ...lateLife]).violations[0]).toMatchObject({ key: 'seat', process: P });
    expect(brokenRules([open, closed(P, 9_000, 9_010)])).toEqual(never);
    expect(brokenRules([open, ...lateLife, harmed(9_500, 'killed')])).toEqual(never);
    expect(brokenRules([granted('a', 900), released('a', 1_000), ...lateLife])).toEqual(never);
  });

  it('breaks none when its process was not seen after its limit', () => {
    const oneTry = asked('a', 1_000, { waitMs: 0 });
    const until = 1_000 + nodeTimeoutMs + callOverrunMs;
    expect(brokenRules([oneTry, asked('b', until, { process: P, waitMs: 0 })])).toEqual([]);
  });

  it('breaks none when its process was killed or stopped for good before', () => {
    expect(brokenRules([open, ...lateLife, harmed(1_300, 'killed')])).toEqual([]);
    expect(brokenRules([open, ...lateLife, harmed(1_300, 'stopped')])).toEqual([]);
    expect(brokenRules([open, harmed(1_300, 'blocked'), harmed(3_000, 'killed')])).toEqual([]);
  });

  it('is no sign of life that others found its process dead', () => {
    const found = problem('ended-by-itself', 9_000);
    expect(brokenRules([open, found])).toEqual(['ended-by-itself']);
  });
});

describe('measures of time', () => {
  it('leave out when the process did not run', () => {
    const events = [
      ...call(200, 230),
      asked('b', 3_000, { waitMs: 200 }),
      answered('b', 3_900, BUSY),
      stalled('process-b', 3_150, 3_860),
    ];
    expect(measure(events).longestAcquireOverrunMs).toBe(40);
  });

  it('are of the longest release and close', () => {
    const measures = measure([...release(12), closed(P, 2_000, 2_034)]);
    expect(measures).toMatchObject({ longestReleaseMs: 12, longestCloseMs: 34 });
  });

  it('are of the latest loss', () => {
    expect(measure([granted('a', 0), lost('a', 984)]).latestLossMs).toBe(0);
    expect(measure([granted('a', 0), lost('a', 1_000)]).latestLossMs).toBe(12);
    const afterStall = [granted('a', 0), stalled(P, 500, 1_500), lost('a', 1_507)];
    expect(measure(afterStall).latestLossMs).toBe(7);
  });

  it('do not count what happened before a stall as excused by it', () => {
    const events = [...call(200, 400), stalled(P, 1_450, 5_000)];
    expect(measure(events).longestAcquireOverrunMs).toBe(200);
  });
});
