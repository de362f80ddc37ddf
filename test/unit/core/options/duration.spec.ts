import { describe, expect, it } from '@jest/globals';
import { RedlockConfigError } from '../../../../lib/core/errors.ts';
import { durationMs, MAX_DURATION_MS } from '../../../../lib/core/options/duration.ts';
import type { Duration } from '../../../../lib/core/options/duration.ts';

describe('durationMs', () => {
  it('understands numbers and numbers with a unit, as whole milliseconds', () => {
    const given = [
      0,
      1.5,
      10_000 / 3,
      MAX_DURATION_MS,
      '500ms',
      '0.4ms',
      '30s',
      '16.1s',
      '5m',
      '1h',
      '2d',
    ];
    expect(given.map((value) => durationMs('ttl', value as Duration))).toEqual([
      0, 2, 3_333, 2_147_483_647, 500, 0, 30_000, 16_100, 300_000, 3_600_000, 172_800_000,
    ]);
  });

  const values = [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    MAX_DURATION_MS + 1,
    5n,
    true,
    null,
    {},
  ];
  const texts = ['10', '10 s', '-5s', '1e3ms', '10S', 's', '', 'Infinityms', '25d', '999999h'];

  it('refuses everything else, by the name of the option', () => {
    for (const value of [...values, ['5s'], ...texts]) {
      const parse = () => durationMs('wait', value as Duration);
      expect(parse).toThrow(RedlockConfigError);
      expect(parse).toThrow(/^Option 'wait' can't be .+: give milliseconds, .+'30s'/);
    }
  });

  it('names the lower bound that was broken', () => {
    expect(() => durationMs('ttl', 50, 100)).toThrow(/can't be 50: .* from 100 ms/);
  });
});
