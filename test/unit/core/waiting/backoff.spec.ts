import { describe, expect, it } from '@jest/globals';
import { jitterMs } from '../../../../lib/core/holding/queue-place.ts';
import { backoffMs } from '../../../../lib/core/waiting/backoff.ts';

describe('backoffMs', () => {
  const facts = { baseDelayMs: 4, maxDelayMs: 500 };

  it('is full jitter that doubles with every failure up to the maximum', () => {
    const longest = (failures: number) => backoffMs({ ...facts, failures, random: 1 });
    expect([1, 2, 3, 6, 7, 30, 5_000].map(longest)).toEqual([8, 16, 32, 256, 500, 500, 500]);
    expect(backoffMs({ ...facts, failures: 3, random: 0.25 })).toBe(8);
    expect(backoffMs({ ...facts, failures: 3, random: 0 })).toBe(0);
  });
});

describe('jitterMs', () => {
  it('is a round trip, which doubles with the failures, five times and up to 40 ms', () => {
    const longest = (failures: number) => jitterMs(failures, 1, 1);
    expect([0, 1, 2, 5, 6, 99].map(longest)).toEqual([1, 2, 4, 32, 32, 32]);
    expect([jitterMs(5, 1_000, 1), jitterMs(2, 1, 0.5)]).toEqual([40, 2]);
  });
});
