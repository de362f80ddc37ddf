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

describe('defaults', () => {
  it('of three nodes', () => {
    expect(resolveOptions({}, 3)).toEqual({
      acquire: {
        ttlMs: 10_000,
        waitMs: 12_000,
        nodeTimeoutMs: 500,
        extend: true,
        minHoldMs: 0,
      },
      maxTtlMs: 10_000,
      driftFactor: 0.01,
      keyPrefix: 'lock:',
      restartGuardMs: 10_000,
      quorum: 2,
      tokenSource: undefined,
      retryBaseDelayMs: undefined,
      retryMaxDelayMs: undefined,
      nodeTimeoutMs: undefined,
      onEvent: undefined,
    });
  });

  it('of one node: no restart guard, and so a shorter wait', () => {
    expect(resolveOptions({}, 1)).toMatchObject({
      quorum: 1,
      restartGuardMs: 0,
      acquire: { waitMs: 2_000 },
    });
  });

  it.each([
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
    [6, 4],
    [7, 4],
  ])('the quorum of %i nodes is %i', (nodeCount, quorum) => {
    expect(resolveOptions({}, nodeCount).quorum).toBe(quorum);
  });

  it('the wait covers a restart guard that maxTtl lengthens', () => {
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

  it('what comes out cannot be changed', () => {
    expect(Object.isFrozen(resolveOptions({}, 3))).toBe(true);
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
        retry: { baseDelay: 5, maxDelay: '2s' },
        onEvent,
      },
      3,
    );
    expect(resolved).toMatchObject({
      acquire: {
        ttlMs: 30_000,
        waitMs: 0,
        nodeTimeoutMs: 1_000,
        extend: false,
        minHoldMs: 30_000,
      },
      maxTtlMs: 60_000,
      driftFactor: 0,
      keyPrefix: '',
      restartGuardMs: 0,
      quorum: 3,
      retryBaseDelayMs: 5,
      retryMaxDelayMs: 2_000,
      onEvent,
    });
    expect(resolved.tokenSource).toEqual({ issue });
  });
});

describe('each relation', () => {
  it('ttl above maxTtl', () => {
    const error = refused({ ttl: '20s', maxTtl: '10s' });
    expect([error.option, error.message]).toEqual([
      'ttl',
      expect.stringMatching(/20000 ms.*maxTtl \(10000 ms\).*raise maxTtl in every process first/),
    ]);
  });

  it('minHold above maxTtl is not reported as a problem of ttl', () => {
    const error = refused({ ttl: '10s', minHold: '20s' });
    expect([error.option, error.message]).toEqual([
      'minHold',
      expect.stringMatching(/20000 ms.*maxTtl \(10000 ms\)/),
    ]);
  });

  it('a node timeout above a third of the ttl', () => {
    const error = refused({ ttl: '3s', nodeTimeout: 1_001 });
    expect([error.option, error.message]).toEqual([
      'nodeTimeout',
      expect.stringMatching(/1001 ms.*a third of ttl \(3000 ms\)/),
    ]);
    expect(resolveOptions({ ttl: '3s', nodeTimeout: 1_000 }, 3).nodeTimeoutMs).toBe(1_000);
  });

  it('a restart guard that is asked for on one node', () => {
    expect(resolveOptions({ restartGuard: true }, 1).restartGuardMs).toBe(10_000);
  });

  it('the ttl is raised to minHold, so that a crash does not cut the hold short', () => {
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
