import { describe, expect, it } from '@jest/globals';
import type { AcquireReply } from '../../../../lib/core/nodes/lock-node.ts';
import { hintJitterMs, retryDelayMs } from '../../../../lib/core/waiting/backoff.ts';
import type { RetryFacts } from '../../../../lib/core/waiting/backoff.ts';

const facts: RetryFacts = {
  failures: 1,
  roundTripMs: 2,
  ttlMs: 10_000,
  baseDelayMs: 4,
  maxDelayMs: 500,
  random: 0,
};
const held = (remainingMs: number, owner = 'holder'): AcquireReply => ({
  kind: 'held',
  remainingMs,
  floor: 1,
  holder: owner,
});
const quarantined = (remainingMs: number): AcquireReply => ({ kind: 'quarantined', remainingMs });
const accepted: AcquireReply = { kind: 'accepted' };

const delay = (
  replies: (AcquireReply | undefined)[],
  quorum: number,
  change: Partial<RetryFacts> = {},
) => retryDelayMs({ replies, quorum }, { ...facts, ...change });

describe('retryDelayMs behind a holder', () => {
  it('waits until enough of its leases have ended, not until the last', () => {
    expect(delay([held(900), held(300), held(600)], 2)).toBe(601);
  });

  it('needs fewer leases to end where nodes would vote for us already', () => {
    expect(delay([accepted, held(300), held(600)], 2)).toBe(301);
  });

  it('counts quarantines among the times', () => {
    expect(delay([quarantined(200), held(300), held(600), undefined, held(900)], 3)).toBe(601);
  });

  it('never waits longer than the ttl', () => {
    expect(delay([held(90_000), held(90_000), undefined], 2)).toBe(10_000);
  });

  it('does not wait for ever behind a key without ttl', () => {
    for (const random of [0, 0.5, 0.999])
      expect(delay([held(-1), held(-1), held(-1)], 2, { random, failures: 60 })).toBeLessThan(500);
  });
});

describe('retryDelayMs in quarantine', () => {
  it('waits until enough nodes may vote again', () => {
    expect(delay([quarantined(500), quarantined(800), accepted], 2)).toBe(501);
  });

  it('does not wait for a quarantine that decides nothing', () => {
    expect(delay([quarantined(5_000), held(20, 'one'), held(30, 'two')], 2)).toBeLessThan(500);
  });
});

describe('retryDelayMs after a split vote', () => {
  const split = [held(9_000, 'one'), held(9_000, 'two'), accepted];

  it('is full jitter that doubles with every failure up to the maximum', () => {
    const longest = (failures: number) => delay(split, 2, { failures, random: 0.999_999 });
    expect([1, 2, 3, 4].map((failures) => Math.round(longest(failures)))).toEqual([8, 16, 32, 64]);
    expect(longest(30)).toBeLessThan(500);
    expect(longest(5_000)).toBeLessThan(500);
    expect(delay(split, 2, { random: 0 })).toBe(0);
  });

  it('is never longer than the ttl', () => {
    expect(
      delay(split, 2, { failures: 30, random: 0.999, ttlMs: 100, maxDelayMs: 60_000 }),
    ).toBeLessThanOrEqual(100);
  });
});

describe('hintJitterMs', () => {
  it('grows with failures but is never above 40 ms', () => {
    const longest = (failures: number, roundTripMs = 1) =>
      Math.round(hintJitterMs({ failures, roundTripMs, random: 0.999_999 }));
    expect([0, 1, 2, 5, 6, 99].map((failures) => longest(failures))).toEqual([1, 2, 4, 32, 32, 32]);
    expect(longest(5, 1_000)).toBe(40);
  });
});
