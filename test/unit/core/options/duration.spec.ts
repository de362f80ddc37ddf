import { describe, expect, it } from '@jest/globals';
import { RedlockConfigError } from '../../../../lib/core/errors.ts';
import { durationMs, MAX_DURATION_MS } from '../../../../lib/core/options/duration.ts';
import type { Duration } from '../../../../lib/core/options/duration.ts';

describe('durationMs', () => {
  it('understands numbers and numbers with a unit, as whole milliseconds', () => {
    const given = [0, 1.5, 10_000 / 3, MAX_DURATION_MS, '500ms', '16.1s', '5m', '1h', '2d'];
    expect(given.map((value) => durationMs('ttl', value as Duration))).toEqual([
      0, 2, 3_333, 2_147_483_647, 500, 16_100, 300_000, 3_600_000, 172_800_000,
    ]);
  });

  it('refuses everything else, by the name of the option', () => {
    const values = [Number.NaN, Infinity, -1, MAX_DURATION_MS + 1, 5n, true, null, {}, ['5s']];
    const texts = ['10', '10 s', '-5s', '1e3ms', '10S', 's', '', 'Infinityms', '25d'];
    for (const value of [...values, ...texts]) {
      const parse = () => durationMs('wait', value as Duration);
      expect(parse).toThrow(RedlockConfigError);
      expect(parse).toThrow(/^Option 'wait' can't be /);
    }
    expect(() => durationMs('ttl', 50, 100)).toThrow(/from 100 ms/);
  });
});
