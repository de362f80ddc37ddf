import { describe, expect, it, jest } from '@jest/globals';
import {
  FencedUsageError,
  isRedlockError,
  LockBusyError,
  LockLostError,
  QuorumUnavailableError,
  quoteKeys,
  RedlockClosedError,
  RedlockConfigError,
  RedlockError,
  StaleTokenError,
} from '../../../lib/core/errors.ts';
import type { LockLossReason, NodeCause } from '../../../lib/core/errors.ts';

const cause: NodeCause = {
  address: '10.0.0.2:6379',
  reason: 'timeout',
  message: 'no answer in time',
  elapsedMs: 500,
};
const all: [string, string, RedlockError][] = [
  ['LockBusyError', 'LOCK_BUSY', new LockBusyError(['a'], 2_000.4, 730.2, [cause])],
  [
    'QuorumUnavailableError',
    'QUORUM_UNAVAILABLE',
    new QuorumUnavailableError(['a'], 12_000, 2, 3, [cause]),
  ],
  ['LockLostError', 'LOCK_LOST', new LockLostError(['a'], 'expired', 17, [cause])],
  ['StaleTokenError', 'STALE_TOKEN', new StaleTokenError('a', '17', '18')],
  ['FencedUsageError', 'FENCED_USAGE', new FencedUsageError('Wrong use.', ['a'])],
  ['RedlockConfigError', 'REDLOCK_CONFIG', new RedlockConfigError('ttl', 5, 'give more')],
  ['RedlockClosedError', 'REDLOCK_CLOSED', new RedlockClosedError(['a'])],
];

describe.each(all)('%s', (name, code, error) => {
  it('has its name, its code and the base class', () => {
    expect([error.name, error.code]).toEqual([name, code]);
    expect(error).toBeInstanceOf(RedlockError);
    expect(error).toBeInstanceOf(Error);
    expect(isRedlockError(error)).toBe(true);
  });
});

describe('messages say what happened and what to do', () => {
  it('busy: how long was waited, how long the holder has, the ways out', () => {
    expect(new LockBusyError(['a', 'b'], 2_000.4, 730.2).message).toBe(
      `Lock "a", "b" is held by another holder (waited 2000 ms). The holder's lease runs 731 ms more unless extended. Try later, wait longer ('wait'), or skip (tryAcquire, onBusy: 'skip').`,
    );
    expect(new LockBusyError(['a'], 5, undefined).message).not.toContain('undefined');
  });

  it('unavailable: each node with its reason', () => {
    expect(new QuorumUnavailableError(['a'], 12_000, 2, 3, [cause, cause]).message).toBe(
      'No quorum for lock "a" after 12000 ms: 2 of 3 nodes must vote. 10.0.0.2:6379: no answer in time; 10.0.0.2:6379: no answer in time. Check these servers, then retry.',
    );
  });

  it.each<LockLossReason>(['expired', 'suspended', 'taken', 'closed', 'released', 'short'])(
    'lost: %s',
    (reason) => {
      const { message } = new LockLostError(['a'], reason, 17);
      expect(message).toMatch(/^Lock "a" \(token 17\) was lost: .{20,}\. Stop the work; .*rejects/);
    },
  );

  it('stale: both tokens, and not to retry', () => {
    const error = new StaleTokenError('seat:1', '17', '18', 'holder', { cause });
    expect(error.message).toContain(
      "Stale fencing token 17 for 'seat:1': the resource has seen 18.",
    );
    expect(error.message).toContain('do not retry with this token');
    expect([error.keys, error.cause]).toEqual([['seat:1'], cause]);
  });

  it('a loss carries what the work returned', () => {
    expect(new LockLostError(['a'], 'taken', 17, [], { paid: true }).result).toEqual({
      paid: true,
    });
  });
});

describe('values in messages', () => {
  it.each<[unknown, string]>([
    ['x'.repeat(500), `"${'x'.repeat(100)}"`],
    [{ password: 'secret' }, 'an object'],
    [['secret'], 'an array'],
    [() => 'secret', 'a function'],
    [Symbol('secret'), 'a symbol'],
    [null, 'null'],
    [undefined, 'undefined'],
    [12n, '12'],
  ])('an option that is %p is shown short and without its inside', (value, shown) => {
    expect(new RedlockConfigError('ttl', value, 'fix it').message).toBe(
      `Option 'ttl' can't be ${shown}: fix it.`,
    );
  });

  it('keys are quoted, cut and counted', () => {
    expect(quoteKeys(['a\nb', 'k'.repeat(200)])).toBe(`"a\\nb", "${'k'.repeat(100)}…"`);
    expect(quoteKeys(['1', '2', '3', '4', '5', '6', '7'])).toBe(
      '"1", "2", "3", "4", "5" and 2 more',
    );
  });
});

describe('isRedlockError', () => {
  it('knows the errors of another copy of the package', async () => {
    jest.resetModules();
    const copy = await import('../../../lib/core/errors.ts');
    const foreign = new copy.LockBusyError(['a'], 0, undefined);
    expect(foreign).not.toBeInstanceOf(RedlockError);
    expect(isRedlockError(foreign)).toBe(true);
  });

  it.each([new Error('busy'), { code: 'LOCK_BUSY' }, 'LOCK_BUSY', null, undefined, 5])(
    'does not take %p for one of ours',
    (value) => {
      expect(isRedlockError(value)).toBe(false);
    },
  );
});
