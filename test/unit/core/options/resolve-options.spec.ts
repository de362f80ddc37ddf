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
const acquireOf = (options: RedlockOptions) => resolveOptions(options, 3).acquire;

describe('the defaults', () => {
  it('of three nodes guard against restarts', () => {
    expect(resolveOptions({ identity: false }, 3)).toEqual({
      acquire: { ttlMs: 10_000, waitMs: 12_000, nodeTimeoutMs: 500, extend: true, minHoldMs: 0 },
      maxTtlMs: 10_000,
      driftFactor: 0.01,
      keyPrefix: 'lock:',
      restartGuardMs: 10_000,
      maxLagMs: undefined,
      quorum: 2,
      concurrentTries: 512,
      maxConnectionAgeMs: 600_000,
      tokenSource: undefined,
      retryBaseDelayMs: undefined,
      retryMaxDelayMs: undefined,
      nodeTimeoutMs: undefined,
      onEvent: undefined,
    });
  });

  it('derive from the number of nodes: the quorum, and of one node no restart guard and a shorter wait', () => {
    const quorums = [1, 2, 3, 4, 5, 6, 7].map((count) => resolveOptions({}, count).quorum);
    expect(quorums).toEqual([1, 2, 2, 3, 3, 4, 4]);
    const { restartGuardMs, acquire } = resolveOptions({}, 1);
    expect([restartGuardMs, acquire.waitMs]).toEqual([0, 2_000]);
  });

  it('derive from the ttl: the node timeout; from maxTtl: the restart guard, and from that the wait', () => {
    const ttls = ['10s', '2s', '600ms', '300ms', 120] as const;
    const timeouts = ttls.map((ttl) => acquireOf({ ttl }).nodeTimeoutMs);
    expect(timeouts).toEqual([500, 200, 60, 50, 40]);
    const { restartGuardMs, acquire } = resolveOptions({ ttl: '5s', maxTtl: '1m' }, 3);
    expect([restartGuardMs, acquire.waitMs]).toEqual([60_000, 62_000]);
  });

  it.each([
    [{ failover: true }, 23_130],
    [{ failover: { maxLag: '1s' }, maxTtl: '1m', driftFactor: 0 }, 64_000],
  ] as const)(
    'of %p guard one node, too, until a primary cut off from its replicas has long stopped',
    (options, guardMs) => {
      const { restartGuardMs, acquire } = resolveOptions(options, 1);
      expect([restartGuardMs, acquire.waitMs]).toEqual([guardMs, guardMs + 2_000]);
    },
  );
});

describe('a call', () => {
  it('without a ttl of its own keeps the node timeout of the module, also where minHold raised the ttl', () => {
    const resolved = resolveOptions({ ttl: 300, minHold: '5s', maxTtl: '5s' }, 3);
    const timeouts = [{}, { wait: 600 }, { ttl: 300 }, { ttl: '2s' as const }].map(
      (options) => resolveAcquire(resolved, options).nodeTimeoutMs,
    );
    expect(timeouts).toEqual([50, 50, 50, 200]);
  });
});

/** Options that are refused, by the name of the one that is wrong; further ones in test/regressions/first-mistakes.spec.ts. */
const WRONG: Record<string, readonly unknown[]> = {
  ttl: [99, '10', Number.NaN],
  driftFactor: [-0.01, 0.51, Number.NaN],
  keyPrefix: [5, 'x'.repeat(201), 'half \uD83D pair', 'lock:#floor:'],
  extend: ['yes'],
  maxHold: [0, 'always'],
  tokens: ['postgres', { next: () => 1 }],
  quorum: [1, 4, 2.5],
  concurrentTries: [0, 1.5],
  failover: [false, '10s', null],
};

describe('each option', () => {
  it.each([
    ...Object.entries(WRONG).flatMap(([option, values]) =>
      values.map((value) => [option, { [option]: value }, 3] as const),
    ),
    ...[0, 1.5, 32].map((nodeCount) => ['nodes', {}, nodeCount] as const),
    ['quorum', { quorum: 2 }, 4] as const,
    ['restartGuard', { restartGuard: false, failover: true }, 1] as const,
    ['failover', { failover: true, maxTtl: 2_147_483_647 }, 1] as const,
    ['failover.maxLag', { failover: { maxLag: 'long' } }, 1] as const,
    ['failover.lag', { failover: { lag: '1s' } }, 1] as const,
    ['retry.maxDelay', { retry: { maxDelay: -1 } }, 3] as const,
  ])('%s: %p is refused with option, value and fix (%i nodes)', (option, options, nodeCount) => {
    const error = refused(options, nodeCount);
    expect([error.option, error.code]).toEqual([option, 'REDLOCK_CONFIG']);
    expect(error.message).toMatch(/^Option '.+' can't be .+: .+\.$/);
  });
});

describe('each relation of two options', () => {
  it.each<[string, RedlockOptions, RegExp]>([
    ['ttl', { ttl: '20s', maxTtl: '10s' }, /20000 ms.*maxTtl \(10000 ms\).*in every process/],
    // A problem of minHold, not of the ttl, which it raises.
    ['minHold', { ttl: '10s', minHold: '20s' }, /20000 ms.*maxTtl \(10000 ms\)/],
    ['maxHold', { minHold: '5s', maxHold: '4s' }, /4000 ms.*minHold \(5000 ms\)/],
    ['nodeTimeout', { ttl: '3s', nodeTimeout: 1_001 }, /1001 ms.*a third of ttl \(3000 ms\)/],
  ])('is checked for %s: %p', (option, options, message) => {
    expect(refused(options)).toMatchObject({ option, message: expect.stringMatching(message) });
  });
});

describe('options of one call', () => {
  const service = resolveOptions({ ttl: '10s', maxTtl: '30s', wait: '5s' }, 3);
  const call = (options?: AcquireOptions) => resolveAcquire(service, options);

  it('are those of the service where the call says nothing, and replace them, also by 0 and false', () => {
    expect(call()).toBe(service.acquire);
    expect(call({ signal: new AbortController().signal })).toBe(service.acquire);
    expect(call({ wait: 0, extend: false })).toMatchObject({ waitMs: 0, extend: false });
    expect(call({ ttl: '20s' })).toMatchObject({ ttlMs: 20_000, waitMs: 5_000 });
    expect(call({ minHold: '15s' })).toMatchObject({ ttlMs: 15_000, minHoldMs: 15_000 });
  });

  it('take the node timeout from the ttl of the call', () => {
    expect(call({ ttl: '1s' }).nodeTimeoutMs).toBe(100);
    const fixed = resolveOptions({ nodeTimeout: 400 }, 3);
    expect(refusal(() => resolveAcquire(fixed, { ttl: '1s' })).option).toBe('nodeTimeout');
  });

  it('are refused above maxTtl, which a restarted server waits', () => {
    for (const option of ['ttl', 'minHold'])
      expect(refusal(() => call({ [option]: '31s' })).option).toBe(option);
  });
});
