import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import * as errors from '../../../lib/core/errors.ts';
import type { LockLossReason, RedlockError } from '../../../lib/core/errors.ts';

const { isRedlockError, LockBusyError, LockLostError, QuorumUnavailableError } = errors;
const { RedlockConfigError, StaleTokenError } = errors;
const cause = { address: 'b:1', reason: 'timeout', message: 'no answer', elapsedMs: 500 } as const;
const ended = { ...cause, message: 'NOAUTH Authentication required.' };

it.each<[string, string, RedlockError]>([
  ['LockBusyError', 'LOCK_BUSY', new LockBusyError(['a'], 0, 0)],
  ['QuorumUnavailableError', 'QUORUM_UNAVAILABLE', new QuorumUnavailableError(['a'], 0, 2, 3, [])],
  ['LockLostError', 'LOCK_LOST', new LockLostError(['a'], 'expired', 17)],
  ['StaleTokenError', 'STALE_TOKEN', new StaleTokenError('a', '17', '18')],
  ['FencedUsageError', 'FENCED_USAGE', new errors.FencedUsageError('Wrong use.', ['a'])],
  ['RedlockConfigError', 'REDLOCK_CONFIG', new RedlockConfigError('ttl', 5, 'give more')],
  ['RedlockClosedError', 'REDLOCK_CLOSED', new errors.RedlockClosedError(['a'])],
])('%s has its name, its code and the base class', (name, code, error) => {
  expect([error.name, error.code, isRedlockError(error)]).toEqual([name, code, true]);
  // A minifier renames classes: the name must not come from that of the class, which a stack would begin with.
  Object.defineProperty(error.constructor, 'name', { value: 'e' });
  expect(error.stack?.split(':')[0]).toBe(name);
  expect(error).toBeInstanceOf(errors.RedlockError);
  expect(error).toBeInstanceOf(Error);
});

describe('a message says what happened and what to do', () => {
  it('when busy: how long was waited, how long the holder has, the ways out', () => {
    expect(new LockBusyError(['a', 'b'], 2_000.4, 730.2).message).toBe(
      `Lock "a", "b" is held by another holder (waited 2000 ms). The holder's lease runs 731 ms more unless extended. Try later, wait longer ('wait'), or skip (tryAcquire, onBusy: 'skip').`,
    );
    expect(new LockBusyError(['a'], 5, undefined).message).not.toContain('undefined');
    expect(new LockBusyError(['a'], 5, undefined, [], true).message).toBe(
      `Lock "a" is held by another call of this process (waited 5 ms). Try later, wait longer ('wait'), or skip (tryAcquire, onBusy: 'skip'). If none is running, look for a missing release(), or minHold.`,
    );
  });

  it('when unavailable: each node with its reason', () => {
    expect(new QuorumUnavailableError(['a'], 12_000, 2, 3, [cause, ended]).message).toBe(
      'No quorum for lock "a" after 12000 ms: 2 of 3 nodes must vote. b:1: no answer; b:1: NOAUTH Authentication required. Check these servers, then retry.',
    );
  });

  it('when unavailable during the restart guard alone: that nothing is broken', () => {
    const guarded = { ...ended, reason: 'quarantined' } as const;
    const messageOf = (...causes: (typeof ended | typeof guarded)[]) =>
      new QuorumUnavailableError(['a'], 1_000, 2, 3, causes).message;
    expect(messageOf(guarded, guarded)).toMatch(/Nothing is broken: .* restart guard/);
    expect(messageOf(guarded, ended)).toMatch(/Nothing is broken/);
    expect(messageOf(guarded, ended, ended)).toMatch(/Check these servers, then retry\.$/);
    expect(messageOf(ended, ended)).not.toContain('Nothing is broken');
  });

  it('when other data have the name: that no retry helps', () => {
    const taken = { ...cause, message: 'WRONGTYPE lock:a holds data that is no lock' };
    expect(new QuorumUnavailableError(['a'], 9, 2, 3, [cause, taken, taken]).message).toMatch(
      /no lock\. Other data have the name of this lock there, so no retry helps: use another key or keyPrefix, or take them away\.$/,
    );
    expect(new QuorumUnavailableError(['a'], 9, 2, 3, [cause, cause, taken]).message).toMatch(
      /Check these servers, then retry\.$/,
    );
  });

  it('when unavailable for want of time or slots in this process: that the servers are not at fault', () => {
    const own = { ...cause, address: 'this process' };
    const { message } = new QuorumUnavailableError(['a'], 0, 2, 3, [own]);
    expect(message).toMatch(
      /servers are not at fault: retry, wait longer \('wait'\), or start fewer/,
    );
  });

  it('when too little validity is left: that the lock is held, and to stop before the step', () => {
    expect(new LockLostError(['a'], 'short', 17).message).toMatch(
      /^Lock "a" \(token 17\) is still held, but .*\. Stop before that step, or extend the lock\.$/,
    );
  });

  it.each<LockLossReason>(['expired', 'suspended', 'taken', 'closed'])(
    'when lost: %s, and carries what the work returned',
    (reason) => {
      const { message, result } = new LockLostError(['a'], reason, 17, [], { paid: true });
      expect(message).toMatch(/^Lock "a" \(token 17\) was lost: .{20,}\. Stop the work; .*rejects/);
      expect(result).toEqual({ paid: true });
    },
  );

  it('when stale: both tokens, and not to retry', () => {
    const error = new StaleTokenError('seat:1', '17', '18', 'holder', { cause });
    const message =
      /^Stale fencing token 17 for 'seat:1': the resource has seen 18\..* not retry with/;
    expect(error.message).toMatch(message);
    expect([error.keys, error.cause]).toEqual([['seat:1'], cause]);
    expect(error.message).toMatch(/A newer holder exists\. Undo what/);
  });

  it.each(['holder', undefined])('when stale by its own number: that another has it', (holder) => {
    const { message } = new StaleTokenError('seat:1', '18', '18', holder);
    expect(message).toMatch(
      /has seen 18\. Another holder has the same number, and came first\. Undo what/,
    );
    expect(message).not.toMatch(/newer/);
    expect(new StaleTokenError('seat:1', '18', '18', '').message).not.toMatch(
      /is older|newer holder/,
    );
  });

  it('when stale by a number of no holder: that the lock is to be taken again', () => {
    const { message } = new StaleTokenError('seat:1', '17', '18', '');
    expect(message).toMatch(/has seen 18\. .* no holder: .* maxAge .* Take the lock again/);
    expect(message).not.toMatch(/newer holder exists|Undo/);
  });

  it.each([
    [
      49,
      /2 days ahead of the clock here\. If that clock is right.*key is out of use.*UPDATE redlock_fence SET token = \d{16}, holder = '' WHERE resource = …, or in Redis HSET fence:\{…\} t \d{16} h ''/,
    ],
    [23, /A newer holder exists/],
  ])('when stale by a number %d hours ahead: what it is', (hours, expected) => {
    const now = Date.now() * 1_000;
    const ahead = now + hours * 3_600_000_000;
    for (const holder of ['holder', undefined])
      expect(new StaleTokenError('a', `${now}`, `${ahead}`, holder).message).toMatch(expected);
    // Another issuer's numbers are no times.
    expect(new StaleTokenError('a', `${ahead * 2}`, `${ahead * 3}`).message).toMatch(/A newer/);
  });

  it('when stale by a number far ahead: the repair with the number of now', () => {
    const now = Date.now() * 1_000;
    const { message } = new StaleTokenError('a', `${now}`, `${now + 5 * 86_400_000_000}`, 'h');
    const [token = 0, inRedis] = [...message.matchAll(/\d{16}(?=, holder| h '')/g)].map(Number);
    expect([Math.abs(token - now) < 60_000_000, inRedis]).toEqual([true, token]);
  });

  it('when closed: that it is not held, and who can serve the call', () => {
    expect(new errors.RedlockClosedError(['a']).message).toBe(
      'Lock "a" was not acquired: the lock service is closed or shutting down. It is not held; another process, or the next start of this one, can serve the call.',
    );
  });

  it('when a start is closed: that no lock is held, and what to look for', () => {
    expect(new errors.RedlockClosedError([]).message).toBe(
      'The start ended: the lock service is closed or shutting down. No lock is held. If the application was not meant to stop, look for what closed it while it started.',
    );
  });
});

describe('in JSON', () => {
  const written = (error: RedlockError): unknown => JSON.parse(JSON.stringify(error));
  const node = { ...cause };

  it('is what a log needs, without the stack', () => {
    const busy = new LockBusyError(['a'], 5, 730, [node], true);
    busy.where = 'Seats.book';
    expect(written(busy)).toEqual({
      name: 'LockBusyError',
      code: 'LOCK_BUSY',
      message: busy.message,
      keys: ['a'],
      where: 'Seats.book',
      waitedMs: 5,
      holderRemainingMs: 730,
      isHeldHere: true,
      causes: [node],
    });
    const outage = new QuorumUnavailableError(['a'], 5, 2, 3, [node]);
    expect(written(outage)).toMatchObject({ quorum: 2, nodeCount: 3, causes: [node] });
  });

  it('is nothing of the user, nothing that JSON cannot write, and nothing to pass a fence with', () => {
    const circular: { self?: unknown; secret: string } = { secret: 'hunter2' };
    circular.self = circular;
    const lost = new LockLostError(['a'], 'taken', 17, [], circular);
    expect(written(lost)).toMatchObject({ name: 'LockLostError', reason: 'taken', token: 17 });
    const refused = new RedlockConfigError('nodes[0]', circular, 'give a URL');
    expect(written(refused)).toMatchObject({ option: 'nodes[0]', message: refused.message });
    const stale = new StaleTokenError('a', '17', '18', 'hunter2', { cause: circular });
    expect(written(stale)).toMatchObject({ key: 'a', token: '17', currentToken: '18' });
    expect(JSON.stringify([lost, refused, stale])).not.toContain('hunter2');
  });
});

it('is not shown with the mark by which copies of the package know each other', () => {
  const error = new StaleTokenError('a', '17', '18');
  expect(inspect(error)).not.toContain('nestjs-fenced-lock/error');
  expect(isRedlockError(error)).toBe(true);
});

describe('in a message', () => {
  it('shows a value to programs, and in no log: it may have a password', () => {
    const error = new RedlockConfigError('fence', { password: 'hunter2' }, 'fix it');
    expect(error.value).toEqual({ password: 'hunter2' });
    expect(inspect(error)).not.toContain('hunter2');
    expect(JSON.stringify(error)).not.toContain('hunter2');
  });

  it('an option is short and without its inside', () => {
    const given = [{ password: 'secret' }, ['secret'], () => 'secret', Symbol('secret'), null, 12n];
    const shown = ['an object', 'an array', 'a function', 'a symbol', 'null', '12'];
    const messageOf = (value: unknown) => new RedlockConfigError('ttl', value, 'fix it').message;
    const expected = (text: string) => `Option 'ttl' can't be ${text}: fix it.`;
    expect(given.map(messageOf)).toEqual(shown.map(expected));
    expect(messageOf(undefined)).toBe(expected('undefined'));
    expect(messageOf('x'.repeat(500))).toBe(expected(`"${'x'.repeat(100)}"`));
  });

  it('keys are quoted, cut and counted', () => {
    const { quoteKeys } = errors;
    expect(quoteKeys(['a\nb', 'k'.repeat(200)])).toBe(`"a\\nb", "${'k'.repeat(100)}…"`);
    expect(quoteKeys('1234567'.split(''))).toBe('"1", "2", "3", "4", "5" and 2 more');
  });
});

describe('isRedlockError', () => {
  it('knows the errors of another copy of the package', async () => {
    jest.resetModules();
    const copy = await import('../../../lib/core/errors.ts');
    const foreign = new copy.LockBusyError(['a'], 0, undefined);
    expect(foreign).not.toBeInstanceOf(errors.RedlockError);
    expect(isRedlockError(foreign)).toBe(true);
  });

  it.each([new Error('busy'), { code: 'LOCK_BUSY' }, 'LOCK_BUSY', null, undefined, 5])(
    'does not take %p for an error of this package',
    (value) => expect(isRedlockError(value)).toBe(false),
  );
});
