import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { RedlockConfigError } from '../../lib/core/errors.ts';
import type { WithLockOptions, RedlockOptions } from '../../lib/core/options/options.ts';
import { resolveAcquire, resolveOptions } from '../../lib/core/options/resolve-options.ts';
import type { ResolvedAcquire } from '../../lib/core/options/resolve-options.ts';

const NUMBERS = [0, -0, -1, 0.5, 1e-9, 99, 100, 2 ** 31 - 1, 2 ** 31, 2 ** 53, 1e308, -1e308];
const odd = fc.oneof(
  fc.constantFrom(...NUMBERS, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
  fc.constantFrom(
    '',
    '0',
    '-1s',
    '1e3s',
    '5',
    's',
    '1 s',
    '10S',
    '1s\n',
    'Infinitys',
    'NaNms',
    '9'.repeat(400) + 's',
  ),
  fc.constantFrom('0ms', '100ms', '1.5s', '30s', '1m', '1h'),
  fc.double(),
  fc.integer(),
  fc.anything({ withBigInt: true, withDate: true, withNullPrototype: true }),
);
/** Some of these options, each with an odd value. */
const some = (...names: string[]) =>
  fc
    .subarray(names, { minLength: 1, maxLength: 3 })
    .chain((chosen) => fc.record(Object.fromEntries(chosen.map((name) => [name, odd]))));

const SERVICE_OPTIONS =
  'ttl maxTtl wait nodeTimeout driftFactor keyPrefix extend minHold restartGuard tokens quorum retry onEvent';
const serviceOptions = some(...SERVICE_OPTIONS.split(' ')) as fc.Arbitrary<RedlockOptions>;
const callOptions = some(
  'ttl',
  'wait',
  'extend',
  'minHold',
  'onLost',
  'release',
) as fc.Arbitrary<WithLockOptions>;

/** Expects what every later calculation relies on. */
function expectSound({ ttlMs, waitMs, nodeTimeoutMs, minHoldMs, extend }: ResolvedAcquire): void {
  for (const ms of [ttlMs, waitMs, nodeTimeoutMs, minHoldMs]) {
    expect(Number.isFinite(ms) && ms >= 0 && ms <= 2_147_483_647).toBe(true);
  }
  expect(ttlMs).toBeGreaterThanOrEqual(Math.max(100, minHoldMs));
  expect(nodeTimeoutMs).toBeGreaterThan(0);
  expect(nodeTimeoutMs).toBeLessThanOrEqual(ttlMs / 3);
  expect(typeof extend).toBe('boolean');
}

function expectClear(error: unknown): void {
  expect(error).toBeInstanceOf(RedlockConfigError);
  const { message, option } = error as RedlockConfigError;
  expect(message).toContain(option);
  expect(message.length).toBeLessThan(600);
}

describe('options of the service', () => {
  it('options of the service are refused by name, or give sound settings', () => {
    let taken = 0;
    fc.assert(
      fc.property(serviceOptions, fc.integer({ min: 1, max: 31 }), (options, nodeCount) => {
        let resolved;
        try {
          resolved = resolveOptions(options, nodeCount);
        } catch (error) {
          return expectClear(error);
        }
        taken += 1;
        expectSound(resolved.acquire);
        expect(resolved.maxTtlMs).toBeGreaterThanOrEqual(resolved.acquire.ttlMs);
        expect(resolved.quorum).toBeGreaterThan(nodeCount / 2);
        expect(resolved.driftFactor >= 0 && resolved.driftFactor <= 0.5).toBe(true);
        expect([0, resolved.maxTtlMs]).toContain(resolved.restartGuardMs);
      }),
      { seed: 42, numRuns: 3_000 },
    );
    expect(taken).toBeGreaterThan(0);
  });
});

describe('options of one call', () => {
  const service = resolveOptions({ maxTtl: '1h' }, 3);

  it('options of one call are refused by name, or give sound settings', () => {
    fc.assert(
      fc.property(callOptions, (options) => {
        let resolved;
        try {
          resolved = resolveAcquire(service, options);
        } catch (error) {
          return expectClear(error);
        }
        expectSound(resolved);
        expect(resolved.ttlMs).toBeLessThanOrEqual(service.maxTtlMs);
      }),
      { seed: 42, numRuns: 3_000 },
    );
  });
});
