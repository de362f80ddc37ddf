import { describe, expect, it } from '@jest/globals';
import { RedlockConfigError } from '../../../../lib/core/errors.ts';
import type { AcquireOptions, RedlockOptions } from '../../../../lib/core/options/options.ts';
import { resolveAcquire, resolveOptions } from '../../../../lib/core/options/resolve-options.ts';

function refusal(run: () => unknown): RedlockConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof RedlockConfigError) return error;
    throw error;
  }
  throw new Error('It was accepted.');
}

const refused = (options: object, nodeCount = 3) =>
  refusal(() => resolveOptions(options as RedlockOptions, nodeCount));

describe('the defaults', () => {
  it('of three nodes guard against restarts', () => {
    expect(resolveOptions({}, 3)).toEqual({
      acquire: { ttlMs: 10_000, waitMs: 12_000, nodeTimeoutMs: 500, extend: true, minHoldMs: 0 },
      maxTtlMs: 10_000,
      driftFactor: 0.01,
      keyPrefix: 'lock:',
      restartGuardMs: 10_000,
      quorum: 2,
      concurrentTries: 512,
      tokenSource: undefined,
      retryBaseDelayMs: undefined,
      retryMaxDelayMs: undefined,
      nodeTimeoutMs: undefined,
      onEvent: undefined,
    });
  });

  it('of one node have no restart guard, and so a shorter wait', () => {
    expect(resolveOptions({}, 1)).toMatchObject({
      quorum: 1,
      restartGuardMs: 0,
      acquire: { waitMs: 2_000 },
    });
  });

  it('make a majority the quorum', () => {
    const quorums = [1, 2, 3, 4, 5, 6, 7].map((count) => resolveOptions({}, count).quorum);
    expect(quorums).toEqual([1, 2, 2, 3, 3, 4, 4]);
  });

  it('wait for as long as a restart guard that maxTtl lengthens', () => {
    const { restartGuardMs, acquire } = resolveOptions({ ttl: '5s', maxTtl: '1m' }, 3);
    expect([restartGuardMs, acquire.waitMs]).toEqual([60_000, 62_000]);
  });

  it.each([
    ['10s', 500],
    ['2s', 200],
    ['600ms', 60],
    ['300ms', 50],
    [120, 40],
  ] as const)('the node timeout for ttl %p is %i ms', (ttl, nodeTimeoutMs) => {
    expect(resolveOptions({ ttl }, 3).acquire.nodeTimeoutMs).toBe(nodeTimeoutMs);
  });
});

describe('each option', () => {
  it.each<[string, object, number?]>([
    ['nodes', {}, 0],
    ['nodes', {}, 1.5],
    ['ttl', { ttl: 99 }],
    ['ttl', { ttl: '10' }],
    ['ttl', { ttl: Number.NaN }],
    ['maxTtl', { maxTtl: 'soon' }],
    ['wait', { wait: -1 }],
    ['wait', { wait: Number.POSITIVE_INFINITY }],
    ['nodeTimeout', { nodeTimeout: 0 }],
    ['nodeTimeout', { nodeTimeout: '1x' }],
    ['driftFactor', { driftFactor: -0.01 }],
    ['driftFactor', { driftFactor: 0.51 }],
    ['driftFactor', { driftFactor: Number.NaN }],
    ['driftFactor', { driftFactor: '1%' }],
    ['keyPrefix', { keyPrefix: 5 }],
    ['keyPrefix', { keyPrefix: 'x'.repeat(201) }],
    ['keyPrefix', { keyPrefix: 'half \uD83D pair' }],
    ['extend', { extend: 'yes' }],
    ['minHold', { minHold: -5 }],
    ['restartGuard', { restartGuard: 1 }],
    ['tokens', { tokens: 'postgres' }],
    ['tokens', { tokens: { next: () => 1 } }],
    ['tokens', { tokens: null }],
    ['quorum', { quorum: 1 }],
    ['quorum', { quorum: 4 }],
    ['quorum', { quorum: 2.5 }],
    ['quorum', { quorum: 2 }, 4],
    ['concurrentTries', { concurrentTries: 0 }],
    ['concurrentTries', { concurrentTries: 1.5 }],
    ['concurrentTries', { concurrentTries: 100_001 }],
    ['nodes', {}, 32],
    ['retry.baseDelay', { retry: { baseDelay: 'fast' } }],
    ['retry.maxDelay', { retry: { maxDelay: -1 } }],
    ['onEvent', { onEvent: {} }],
  ])('%s: %p is refused with option, value and fix', (option, options, nodeCount = 3) => {
    const error = refused(options, nodeCount);
    expect(error.option).toBe(option);
    expect(error.message).toMatch(/^Option '.+' can't be .+: .{10,}\.$/);
    expect(error.code).toBe('REDLOCK_CONFIG');
  });

  it('is used as given', () => {
    const issue = async () => 1;
    const onEvent = () => undefined;
    const resolved = resolveOptions(
      {
        ttl: '20s',
        maxTtl: '1m',
        wait: 0,
        nodeTimeout: '1s',
        driftFactor: 0,
        keyPrefix: '',
        extend: false,
        minHold: '30s',
        restartGuard: false,
        tokens: { issue },
        quorum: 3,
        concurrentTries: 1,
        retry: { baseDelay: 5, maxDelay: '2s' },
        onEvent,
      },
      3,
    );
    expect(resolved).toMatchObject({
      acquire: { ttlMs: 30_000, waitMs: 0, nodeTimeoutMs: 1_000, extend: false, minHoldMs: 30_000 },
      maxTtlMs: 60_000,
      driftFactor: 0,
      keyPrefix: '',
      restartGuardMs: 0,
      quorum: 3,
      concurrentTries: 1,
      retryBaseDelayMs: 5,
      retryMaxDelayMs: 2_000,
      onEvent,
    });
    expect(resolved.tokenSource).toEqual({ issue });
  });
});

describe('each relation of two options', () => {
  it.each<[string, RedlockOptions, RegExp]>([
    ['ttl', { ttl: '20s', maxTtl: '10s' }, /20000 ms.*maxTtl \(10000 ms\).*in every process first/],
    // Not as a problem of the ttl, which it raises.
    ['minHold', { ttl: '10s', minHold: '20s' }, /20000 ms.*maxTtl \(10000 ms\)/],
    ['nodeTimeout', { ttl: '3s', nodeTimeout: 1_001 }, /1001 ms.*a third of ttl \(3000 ms\)/],
  ])('is checked for %s: %p', (option, options, message) => {
    expect(refused(options)).toMatchObject({ option, message: expect.stringMatching(message) });
  });

  it('may be at its limit', () => {
    expect(resolveOptions({ ttl: '3s', nodeTimeout: 1_000 }, 3).nodeTimeoutMs).toBe(1_000);
    expect(resolveOptions({ restartGuard: true }, 1).restartGuardMs).toBe(10_000);
  });

  it('raises the ttl to minHold, so that a crash does not cut the hold short', () => {
    const { acquire } = resolveOptions({ ttl: '10s', maxTtl: '1m', minHold: '40s' }, 3);
    expect([acquire.ttlMs, acquire.nodeTimeoutMs]).toEqual([40_000, 500]);
  });
});

describe('options of one call', () => {
  const service = resolveOptions({ ttl: '10s', maxTtl: '30s', wait: '5s' }, 3);
  const call = (options?: AcquireOptions) => resolveAcquire(service, options);

  it('are those of the service where the call says nothing', () => {
    expect(call()).toBe(service.acquire);
    expect(call({ signal: new AbortController().signal })).toBe(service.acquire);
  });

  it('replace those of the service, also by 0 and false', () => {
    expect(call({ wait: 0, extend: false })).toMatchObject({ waitMs: 0, extend: false });
    expect(call({ ttl: '20s' })).toMatchObject({ ttlMs: 20_000, waitMs: 5_000 });
    expect(call({ minHold: '15s' })).toMatchObject({ ttlMs: 15_000, minHoldMs: 15_000 });
  });

  it('are resolved once when they cannot change, and for each service by itself', () => {
    const frozen = Object.freeze({ wait: 0 });
    expect(call(frozen)).toBe(call(frozen));
    expect(call({ wait: 0 })).not.toBe(call({ wait: 0 }));
    const other = resolveOptions({ ttl: '20s', wait: '5s' }, 3);
    expect(resolveAcquire(other, frozen)).toMatchObject({ ttlMs: 20_000, waitMs: 0 });
    const later = { wait: 0 };
    call(later);
    later.wait = 7;
    expect(call(later).waitMs).toBe(7);
  });

  it('take the node timeout from the ttl of the call', () => {
    expect(call({ ttl: '1s' }).nodeTimeoutMs).toBe(100);
    const fixed = resolveOptions({ nodeTimeout: 400 }, 3);
    expect(refusal(() => resolveAcquire(fixed, { ttl: '1s' })).option).toBe('nodeTimeout');
  });

  it.each<[string, object]>([
    ['ttl', { ttl: '31s' }],
    ['ttl', { ttl: 5 }],
    ['minHold', { minHold: '31s' }],
    ['wait', { wait: 'long' }],
    ['extend', { extend: 0 }],
  ])('%s: %p is refused', (option, options) => {
    expect(refusal(() => call(options as AcquireOptions)).option).toBe(option);
  });
});
