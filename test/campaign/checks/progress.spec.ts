import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent } from '../campaign-event.ts';
import type { RunLimits } from './run-limits.ts';
import {
  answered,
  asked,
  brokenRules,
  granted,
  grantedTooLate,
  held,
  judge,
  lost,
  mark,
  MEASURED_UNTIL,
  measure,
  nodeReport,
  outage,
  releaseAnswered,
  stalled,
  waiter,
  WAITER,
  withGap,
} from './written-events.ts';

const [GAP_MS, LONG_MS] = [500, 501];

function idle(events: readonly CampaignEvent[], limits: Partial<RunLimits> = {}): boolean {
  const rules = brokenRules(events, limits);
  expect(rules.filter((rule) => rule !== 'idle-too-long')).toEqual([]);
  return rules.length > 0;
}

describe('a key that is asked for', () => {
  it('may lie free for so long, and no longer', () => {
    expect(idle([...withGap(GAP_MS), ...WAITER])).toBe(false);
    expect(idle([...withGap(LONG_MS), ...WAITER])).toBe(true);
    const [violation] = judge([...withGap(LONG_MS), ...WAITER]).violations;
    expect(violation).toMatchObject({ key: 'seat', at: 1_501 });
    expect(violation!.message).toMatch(/holder a.*holder b.*501\.000 ms/);
    expect(measure([...withGap(321), ...WAITER]).longestIdleGapMs).toBe(321);
  });

  it('may lie free without limit where nothing is promised; it is measured all the same', () => {
    expect(idle([...withGap(2_000), ...WAITER], { idleMs: undefined })).toBe(false);
    expect(measure([...withGap(2_000), ...WAITER], { idleMs: undefined }).longestIdleGapMs).toBe(
      2_000,
    );
  });

  it('must be granted although no one gets it at all, or no one any more', () => {
    expect(idle(WAITER)).toBe(true);
    expect(idle([...held('a', 20, 100), ...WAITER])).toBe(true);
  });

  it('counts as held as part of a set, and as granted with one', () => {
    const set = held('s', 1_100, 1_450, { token: 2, keys: ['row', 'seat'] });
    const late = held('c', 1_900, 5_990, { token: 3, validUntil: 6_000 });
    expect(idle([...held('a', 20, 1_000), ...set, ...late, ...waiter('w', 10, 5_900)])).toBe(false);
    expect(idle([...held('a', 20, 1_000), ...late, ...waiter('w', 10, 5_900)])).toBe(true);
  });

  it('is not granted with a lock that was over already', () => {
    const dead = grantedTooLate('d', 1_250, 1_200);
    expect(idle([...withGap(LONG_MS), ...WAITER, dead], { lossToleranceMs: 9_999 })).toBe(true);
  });

  it('is not promised in the guard of servers, which begins when the first process joins them', () => {
    const guard = { from: -3_900, to: -3_800 };
    const restart = outage(-3_900, -3_700, { guard });
    const joined = [0, 1, 2].map((node) => ({ ...nodeReport(400, 'joined'), node }));
    const events = [...withGap(LONG_MS), ...WAITER, restart];
    expect(idle(events)).toBe(true);
    expect(brokenRules([...events, ...joined])).not.toContain('idle-too-long');
  });

  it('is promised only while it is measured', () => {
    const late = waiter('w', MEASURED_UNTIL - 400, MEASURED_UNTIL + 2_000);
    expect(idle(late)).toBe(false);
    expect(idle(waiter('w', MEASURED_UNTIL - 600, MEASURED_UNTIL + 2_000))).toBe(true);
    expect(idle(waiter('w', -2_000, 400))).toBe(false);
  });
});

describe('demand', () => {
  it('is what counts: without it a key may lie free', () => {
    expect(idle(withGap(3_000))).toBe(false);
  });

  it('is continuous over short pauses only', () => {
    const first = waiter('w', 900, 1_300);
    expect(idle([...withGap(LONG_MS), ...first, ...waiter('x', 1_350, 2_000)])).toBe(true);
    expect(idle([...withGap(LONG_MS), ...first, ...waiter('x', 1_351, 2_000)])).toBe(false);
  });

  it('is of calls that wait, for this key alone', () => {
    const none = [
      waiter('w', 900, 1_200, { waitMs: 0 }),
      waiter('w', 900, 2_000, { keys: ['seat', 'row'] }),
      waiter('w', 900, 2_000, { keys: ['row'] }),
    ];
    for (const calls of none) {
      const rules = judge([...withGap(LONG_MS), ...calls]).violations;
      expect(rules.filter(({ key }) => key === 'seat')).toEqual([]);
    }
    expect(
      idle([...withGap(LONG_MS), ...waiter('w', 900, 2_000, { keys: ['seat', 'seat'] })]),
    ).toBe(true);
  });

  it('is there behind a call of the same process for more keys', () => {
    const set = waiter('s', 800, 2_000, { process: 'process-w', keys: ['row', 'seat'] });
    expect(idle([...withGap(LONG_MS), ...set, ...waiter('w', 900, 2_000)])).toBe(true);
  });

  it('is there behind a single try of the same process', () => {
    const oneTry = waiter('s', 1_100, 1_400, { process: 'process-w', waitMs: 0 });
    expect(idle([...withGap(LONG_MS), ...oneTry, ...waiter('w', 900, 2_000)])).toBe(true);
  });

  it('survives a call that is answered in the moment in which it is asked', () => {
    const calls = [...waiter('x', 950, 950, { process: 'process-w' }), ...WAITER];
    expect(idle([...withGap(LONG_MS), ...calls])).toBe(true);
    expect(idle([...withGap(3_000), ...waiter('x', 950, 950)])).toBe(false);
  });

  it('ends with the process', () => {
    const open = [asked('w', 10), asked('v', 1_300, { process: 'process-w', keys: ['row'] })];
    const kill = mark(1_310, { mark: 'worker-killed', worker: 'process-w' });
    expect(idle([...withGap(3_000), ...open, kill])).toBe(false);
  });
});

/** Whether a gap may be so long, and no longer. */
function isLongest(gapMs: number, ...events: CampaignEvent[]): boolean {
  const isIdle = (ms: number) => idle([...withGap(ms), ...WAITER, ...events]);
  return !isIdle(gapMs) && isIdle(gapMs + 1);
}

/** The same, with somebody who held the key before, up to 1 000. */
function isLongestAfter(before: CampaignEvent[], gapMs: number, ...events: CampaignEvent[]) {
  const isIdle = (ms: number) => idle([...before, ...withGap(ms).slice(3), ...WAITER, ...events]);
  return !isIdle(gapMs) && isIdle(gapMs + 1);
}

describe('excused is', () => {
  const stop = (at: number) => mark(at, { mark: 'worker-stopped', worker: 'process-v' });
  const resume = mark(5_000, { mark: 'worker-resumed', worker: 'process-v' });
  const kill = (at: number) => mark(at, { mark: 'worker-killed', worker: 'process-v' });
  const block = (at: number) => mark(at, { mark: 'worker-blocked', worker: 'process-v' });
  const other = waiter('v', 10, 5_900);
  const stall = stalled('process-v', 1_100, 1_160);

  it('a stall of a process that asks, and as long a pause of those who lost to it', () => {
    expect(isLongest(620, ...other, stall)).toBe(true);
    const measures = measure([...withGap(321), ...WAITER, ...other, stall]);
    expect(measures.longestIdleGapMs).toBe(201);
    // Of these 321 ms and 1 ms elsewhere.
    expect(measures.excusedIdleShare).toBeCloseTo(120 / 322);
  });

  it('not a stall of less than half a node timeout, but several in a row', () => {
    const [first, second] = [
      stalled('process-v', 1_100, 1_130),
      stalled('process-v', 1_150, 1_170),
    ];
    expect(isLongest(GAP_MS, ...other, first)).toBe(true);
    expect(isLongest(GAP_MS + 140, ...other, first, second)).toBe(true);
  });

  it('but not that of a process that has nothing to do with the key', () => {
    expect(isLongest(GAP_MS, stall)).toBe(true);
    const elsewhere = waiter('v', 10, 5_900, { keys: ['row'] });
    expect(
      isLongest(
        GAP_MS,
        ...elsewhere,
        ...held('r', 11, 5_990, { keys: ['row'], validUntil: 6_000 }),
        stall,
      ),
    ).toBe(true);
    expect(isLongest(GAP_MS, ...waiter('v', 10, 900), stall)).toBe(true);
  });

  it('not a whole stop: votes live one ttl', () => {
    // 1 000 ttl, 100 on the way, 100 pause
    expect(isLongest(1_700, ...other, stop(1_000), resume)).toBe(true);
  });

  it('a kill for a ttl, counted from the stop before it', () => {
    expect(isLongest(1_700, asked('v', 10), kill(1_000))).toBe(true);
    expect(isLongest(1_700, asked('v', 10), stop(1_000), kill(1_900))).toBe(true);
  });

  it('a kill from when the process last ran, be it for a moment after a stop', () => {
    const events = [stalled('process-v', 20, 990), asked('v', 995), kill(1_000)];
    expect(isLongest(1_700, ...events)).toBe(true);
  });

  it('a kill in the middle of a stall, from when the process last ran', () => {
    const killed = [stalled('process-v', 1_000, 1_600, true), kill(1_600)];
    expect(isLongest(1_700, asked('v', 10), ...killed)).toBe(true);
    // It ran for a moment without a tick, and votes that it sent then live a ttl from there.
    expect(isLongest(2_200, asked('v', 1_500), ...killed)).toBe(true);
    // Before 1 000 it ran, and so it did up to a kill without a stall.
    expect(isLongest(GAP_MS, ...waiter('v', 10, 899), ...killed)).toBe(true);
    expect(idle([...withGap(1_101), ...WAITER, asked('v', 10), kill(1_600)])).toBe(true);
  });

  it('a kill while a server holds what the process sent, from when that arrives', () => {
    const at = (from: number, to: number, event: object = {}) =>
      outage(from, to, { nodes: [0], delivers: true, ...event });
    const killed = [asked('v', 600), kill(700)];
    // Otherwise 700 and 1 200; what arrives at 1 200 lives a ttl, and 100 pause.
    const plainly = 1_400;
    expect(isLongest(plainly, ...killed)).toBe(true);
    expect(isLongest(1_800, ...killed, at(650, 1_200))).toBe(true);
    expect(isLongest(1_800, ...killed, at(650, 1_200, { workers: ['process-v'] }))).toBe(true);
    expect(isLongest(1_800, asked('v', 600), stop(700), resume, at(650, 1_200))).toBe(true);
    // Not what is lost, what somebody else sent, what was sent before it, and what the process itself can take back.
    expect(isLongest(plainly, ...killed, at(650, 1_200, { delivers: false }))).toBe(true);
    expect(isLongest(plainly, ...killed, at(650, 1_200, { workers: ['process-u'] }))).toBe(true);
    const earlier = [...waiter('v', 10, 700), kill(1_000)];
    expect(isLongest(1_600, ...earlier, at(799, 1_200))).toBe(true);
    expect(isLongest(GAP_MS, ...earlier, at(800, 1_200))).toBe(true);
    expect(isLongest(plainly, ...killed, at(650, 690))).toBe(true);
  });

  it('a block by the account of the process', () => {
    const events = [...withGap(900), ...WAITER, ...other, block(1_100)];
    expect(idle([...events, stalled('process-v', 1_120, 1_400)])).toBe(false);
    expect(idle(events)).toBe(true);
  });

  it('a block up to the kill that ended it', () => {
    const calls = [...withGap(1_700), ...WAITER, asked('v', 10)];
    expect(idle([...calls, block(1_000), kill(2_500)])).toBe(false);
    expect(idle([...calls, kill(2_500)])).toBe(true);
    const alive = waiter('u', 1_600, 1_601, { process: 'process-v', keys: ['row'] });
    expect(idle([...calls, ...alive, block(1_000), kill(2_500)])).toBe(true);
  });

  it('a stall of a process whose last message may be on its way', () => {
    expect(isLongest(620, ...waiter('v', 10, 1_001), stall)).toBe(true);
    expect(isLongest(GAP_MS, ...waiter('v', 10, 999), stall)).toBe(true);
  });

  it('a stop of the last holder: an extension may be on its way', () => {
    const runOut = granted('v', 12, { validUntil: 1_000, token: 1.5 });
    // 900, and 1 200 as above
    expect(isLongestAfter([runOut], 1_600, stop(900), resume)).toBe(true);
  });

  it('a stall of the network, or of so many servers that the others are no quorum', () => {
    const servers = [3, 1, 4].map((node) => stalled(`server-${node}`, 1_100, 1_160));
    expect(isLongest(620, stalled('network', 1_100, 1_160))).toBe(true);
    expect(isLongest(620, ...servers)).toBe(true);
    expect(isLongest(GAP_MS, ...servers.slice(1), stalled('campaign', 1_100, 1_160))).toBe(true);
  });

  it('the drift, when a holder let its lock run out, unless it was notified of the loss before', () => {
    const runOut = granted('a', 12, { validUntil: 1_000 });
    expect(isLongestAfter([runOut], 512)).toBe(true);
    expect(isLongestAfter([runOut, lost('a', 995)], 495)).toBe(true);
  });

  it('a release that was not confirmed, until the lock expires', () => {
    // The servers keep it up to 1 030.
    const [, letGo, , ...rest] = withGap(530);
    const events = [granted('a', 30), letGo!, ...rest, ...WAITER];
    expect(idle([...events, releaseAnswered('a', 1_099)])).toBe(true);
    expect(idle([...events, releaseAnswered('a', 1_100)])).toBe(false);
    expect(idle(events)).toBe(false);
  });
});

describe('progress of whole histories', () => {
  it('does not depend on the order of the processes', () => {
    const events = [...withGap(600), ...WAITER, stalled('process-w', 1_100, 1_120)];
    expect(judge([...events].reverse())).toEqual(judge(events));
    const outages = [outage(-90, -85), outage(-80, -75)];
    expect(idle([...events, ...outages])).toBe(true);
    expect(judge([...events, ...outages].reverse())).toEqual(judge([...events, ...outages]));
  });

  it('survives answers without a question, and questions without an answer', () => {
    expect(brokenRules([answered('x', 100), asked('y', MEASURED_UNTIL)])).toEqual([]);
  });
});
