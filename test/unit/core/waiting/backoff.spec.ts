import { describe, expect, it } from '@jest/globals';
import { backoffMs, hintJitterMs, stepBackMs } from '../../../../lib/core/waiting/backoff.ts';

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

describe('stepBackMs', () => {
  it('doubles with the turns that no other process took, up to 80 ms', () => {
    expect([0, 1, 2, 3].map((untaken) => stepBackMs(0.5, untaken))).toEqual([18, 36, 72, 80]);
    expect([0, 1, 3].map((untaken) => stepBackMs(5, untaken))).toEqual([60, 80, 80]);
    expect([0, 3].map((untaken) => stepBackMs(100, untaken))).toEqual([440, 440]);
  });
});
