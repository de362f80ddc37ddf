import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../../lib/core/errors.ts';
import type { TokenRequest } from '../../../../lib/core/fencing-token.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();
type Issue = (request: TokenRequest) => Promise<number>;

/** A process whose tokens come from `issue`, and its next acquire. `minHold` holds only for what a caller has received. */
async function acquiring(issue: Issue, keys: string | string[] = 'a') {
  const process = await newProcess({ tokens: { issue }, minHold: '2s' });
  const { cluster, redlock } = process;
  const acquired = redlock.acquire(keys);
  const failed = cluster.failure(acquired);
  failed.catch(() => undefined);
  /** Nothing is held on any node, soon. */
  const isFree = async () => {
    await cluster.advance(10);
    return cluster.holders('a') === 0;
  };
  return Object.assign(process, { acquired, failed, isFree });
}

describe('a token source', () => {
  it('issues the token of the lock, and receives keys, holder and loss', async () => {
    const asked: TokenRequest[] = [];
    const issue: Issue = async (request) => 41 + asked.push(request);
    const { cluster, acquired, received } = await acquiring(issue, ['b', 'a']);
    const lock = await cluster.settle(acquired);
    const { holder } = lock.token;
    expect(lock.token).toMatchObject({ value: 42, keys: ['a', 'b'] });
    expect(asked).toEqual([{ keys: ['a', 'b'], holder, signal: lock.signal }]);
    expect(received('acquired')).toMatchObject([{ token: 42 }]);
    await cluster.advance(10_000);
    expect(lock.isHeld).toBe(true);
  });

  it('whose token comes after the lock has ended: the token is thrown away with the lock', async () => {
    let issued: (token: number) => void = () => undefined;
    const issue = () => new Promise<number>((resolve) => (issued = resolve));
    const { cluster, failed, isFree } = await acquiring(issue);
    await cluster.environment.flush();
    await cluster.environment.advance(2);
    // Nothing runs until the validity is over, and then the token is there first.
    cluster.environment.skip(4_000);
    issued(5);
    expect([await failed, await isFree()]).toEqual([expect.any(LockLostError), true]);
  });

  it('that fails: the caller receives its error, and nothing is held', async () => {
    const broken = new Error('the database is down');
    const { failed, isFree } = await acquiring(() => Promise.reject(broken));
    expect([await failed, await isFree()]).toEqual([broken, true]);
  });

  it('that hangs costs one ttl, in which nothing is extended, and crashes nothing when it rejects then', async () => {
    let fail: (error: Error) => void = () => undefined;
    const issue = () => new Promise<number>((_, reject) => (fail = reject));
    const { cluster, failed, isFree, node } = await acquiring(issue);
    const startedAtMs = cluster.nowMs;
    const error = (await failed) as LockLostError;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error.message).toContain('the token source issued no token in time');
    expect([cluster.nowMs - startedAtMs <= 3_000, node.asked('extend')]).toEqual([true, []]);
    fail(new Error('too late'));
    expect(await isFree()).toBe(true);
  });

  it.each([0, 1.5, Number.NaN, 2 ** 53, '7', undefined, 5n])(
    'that issues %p is wrong use, and nothing is held',
    async (value) => {
      const { failed, isFree } = await acquiring(async () => value as number);
      expect(await failed).toMatchObject({ code: 'FENCED_USAGE' });
      expect(await isFree()).toBe(true);
    },
  );

  it.each([0, 5_000])('is interrupted by drain(%i) at once, as the acquire is', async (drainMs) => {
    const { cluster, redlock, failed, isFree } = await acquiring(
      () => new Promise(() => undefined),
    );
    await cluster.advance(10);
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.drain(drainMs));
    expect(await failed).toMatchObject({ code: 'REDLOCK_CLOSED' });
    expect([cluster.nowMs - startedAtMs < 10, await isFree()]).toEqual([true, true]);
  });
});
