import { describe, expect, it } from '@jest/globals';
import {
  backoffMs,
  hintJitterMs,
  inOrderMs,
  stepBackMs,
  type Order,
} from '../../../../lib/core/waiting/backoff.ts';

const facts = { baseDelayMs: 4, maxDelayMs: 500 };

describe('backoffMs', () => {
  it('is full jitter that doubles with every failure up to the maximum', () => {
    const longest = (failures: number) => backoffMs({ ...facts, failures, random: 1 });
    expect([1, 2, 3, 6, 7, 30, 5_000].map(longest)).toEqual([8, 16, 32, 256, 500, 500, 500]);
    expect(backoffMs({ ...facts, failures: 3, random: 0.25 })).toBe(8);
    expect(backoffMs({ ...facts, failures: 3, random: 0 })).toBe(0);
  });
});

describe('hintJitterMs', () => {
  it('doubles with the failures, five times and up to 40 ms', () => {
    const longest = (failures: number, roundTripMs = 1) => hintJitterMs(failures, roundTripMs, 1);
    expect([0, 1, 2, 5, 6, 99].map((failures) => longest(failures))).toEqual([1, 2, 4, 32, 32, 32]);
    expect([longest(5, 1_000), hintJitterMs(2, 1, 0.5)]).toEqual([40, 2]);
  });

  it('is never longer than what a process that lets others go first waits for', () => {
    for (const roundTripMs of [0.1, 1, 2, 10, 500]) {
      const longestMs = hintJitterMs(99, roundTripMs, 1);
      // After the hint, the other one needs a round trip for its try, and has to receive the hint first.
      expect(stepBackMs(roundTripMs, 0)).toBeGreaterThanOrEqual(longestMs + 2 * roundTripMs);
    }
    expect(stepBackMs(1, 0)).toBe(36);
  });
});

describe('inOrderMs', () => {
  const next = { ahead: 0, rivals: 3, lostTurns: 0, overtaken: 0, voices: 2, betweenMs: 100 };
  const after = (order: Partial<Order>, random = 0, failures = 1) =>
    inOrderMs({ ...next, ...order }, failures, { quorum: 2, roundTripMs: 1 }, random);
  const between = (order: Partial<Order>, failures = 1) =>
    [0, 1].map((random) => after(order, random, failures));

  it('is nothing for the next one when a quorum is known to be free, and the time of a try before', () => {
    expect([between({}), between({ voices: 1 })]).toEqual([
      [0, 0],
      [1, 1],
    ]);
  });

  it('leaves the time of a try to the next one, then up to eight round trips for those that were passed over', () => {
    expect(between({ ahead: 1 })).toEqual([2, 4]);
    expect(between({ ahead: 1 }, 3)).toEqual([2, 10]);
    expect([1, 2, 3].map((overtaken) => after({ ahead: 2, overtaken }, 1))).toEqual([6, 10, 10]);
  });

  it('lasts until the next release is overdue where they follow each other quickly', () => {
    expect([4, 7, 8].map((betweenMs) => after({ ahead: 1, betweenMs }))).toEqual([8, 12.5, 2]);
    const far = { ...next, ahead: 1, betweenMs: 60 };
    expect(inOrderMs(far, 1, { quorum: 2, roundTripMs: 20 }, 0)).toBe(80);
  });

  it('is earlier after each turn that was lost, and never the same moment', () => {
    const windows = [1, 2, 3, 9].map((lostTurns) => after({ lostTurns }, 1));
    expect(windows).toEqual([2, 1, 0.5, 1 / 16]);
  });

  it('is as without an order for newcomers, until they have lost many turns', () => {
    const newcomer = { rivals: 0, voices: 3 };
    expect([1, 3].map((failures) => after(newcomer, 1, failures))).toEqual([2, 8]);
    const windows = [3, 4, 8, 12, 99].map((lostTurns) => after({ ...newcomer, lostTurns }, 1, 3));
    expect(windows).toEqual([8, 4, 2, 1, 1 / 16]);
  });
});

describe('stepBackMs', () => {
  it('doubles with the turns that no other process took, up to 80 ms', () => {
    expect([0, 1, 2, 3].map((untaken) => stepBackMs(0.5, untaken))).toEqual([18, 36, 72, 80]);
    expect([0, 1, 3].map((untaken) => stepBackMs(5, untaken))).toEqual([60, 80, 80]);
    expect([0, 3].map((untaken) => stepBackMs(100, untaken))).toEqual([440, 440]);
  });
});
