import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import * as errors from '../../../lib/core/errors.ts';
import type { RedlockError } from '../../../lib/core/errors.ts';

const { isRedlockError, LockBusyError, LockLostError, QuorumUnavailableError } = errors;
const { RedlockConfigError, StaleTokenError } = errors;
const cause = { address: 'b:1', reason: 'timeout', message: 'no answer', elapsedMs: 500 } as const;

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
    const stale = new StaleTokenError('a', '17', '18', 'hunter2');
    expect(written(stale)).toMatchObject({ key: 'a', token: '17', currentToken: '18' });
    expect(JSON.stringify([lost, refused, stale])).not.toContain('hunter2');
  });
});

it('is not shown with the mark by which copies of the package know each other', () => {
  const error = new StaleTokenError('a', '17', '18');
  expect(inspect(error)).not.toContain('nestjs-fenced-lock/error');
  expect(isRedlockError(error)).toBe(true);
});

describe('isRedlockError', () => {
  it('knows the errors of another copy of the package', async () => {
    jest.resetModules();
    const copy = await import('../../../lib/core/errors.ts');
    const foreign = new copy.LockBusyError(['a'], 0, undefined);
    expect(foreign).not.toBeInstanceOf(errors.RedlockError);
    expect(isRedlockError(foreign)).toBe(true);
  });
});
