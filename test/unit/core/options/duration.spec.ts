import { describe, expect, it } from '@jest/globals';
import { durationMs, MAX_DURATION_MS } from '../../../../lib/core/options/duration.ts';
import type { Duration } from '../../../../lib/core/options/duration.ts';
import { RedlockConfigError } from '../../../../lib/core/errors.ts';

describe('durationMs', () => {
  it.each<[Duration, number]>([
    [0, 0],
    [1.5, 2],
    [10_000 / 3, 3_333],
    ['16.1s', 16_100],
    ['0.4ms', 0],
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5s', 1_500],
    ['5m', 300_000],
    ['1h', 3_600_000],
    [MAX_DURATION_MS, MAX_DURATION_MS],
  ])('understands %p as %p whole milliseconds', (value, expected) => {
    expect(durationMs('ttl', value)).toBe(expected);
  });

  it.each<unknown>([
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    MAX_DURATION_MS + 1,
    '10',
    '10 s',
    '-5s',
    '1e3ms',
    '10S',
    's',
    '',
    'Infinityms',
    '1d',
    '999999h',
    null,
    {},
    ['5s'],
    5n,
    true,
  ])('refuses %p, naming option, value and fix', (value) => {
    expect(() => durationMs('wait', value as Duration)).toThrow(RedlockConfigError);
    expect(() => durationMs('wait', value as Duration)).toThrow(
      /^Option 'wait' can't be .+: give milliseconds .+'30s'/,
    );
  });

  it('names the lower bound that was broken', () => {
    expect(() => durationMs('ttl', 50, 100)).toThrow(/can't be 50: .* from 100 ms/);
  });
});
