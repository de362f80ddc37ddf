import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../../lib/core/errors.ts';
import type { TokenRequest } from '../../../../lib/core/token-source.ts';
import { clusterFactory, processFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

describe('a token source', () => {
  it('issues the token of the lock, and is told keys, holder and loss', async () => {
    const cluster = await newCluster();
    const asked: TokenRequest[] = [];
    let last = 41;
    const tokens = {
      issue: async (request: TokenRequest) => {
        asked.push(request);
        return (last += 1);
      },
    };
    const { redlock, received } = await cluster.process({ tokens });
    const lock = await cluster.settle(redlock.acquire(['b', 'a']));
    expect(lock.token).toMatchObject({ value: 42, keys: ['a', 'b'] });
    expect(asked).toMatchObject([{ keys: ['a', 'b'], holder: lock.token.holder }]);
    expect(asked[0]?.signal).toBe(lock.signal);
    expect(received('acquired')).toMatchObject([{ token: 42 }]);
    await cluster.advance(10_000);
    expect(lock.isHeld).toBe(true);
  });

  it('whose token comes after the lock has ended: the token is thrown away with the lock', async () => {
    const cluster = await newCluster();
    let issue: (token: number) => void = () => undefined;
    const tokens = { issue: () => new Promise<number>((resolve) => (issue = resolve)) };
    const { redlock } = await cluster.process({ tokens });
    const outcome = redlock.acquire('a').catch((error: unknown) => error);
    await cluster.advance(10);
    // Nothing runs until the validity is over, and then the token is there first.
    cluster.environment.skip(4_000);
    issue(5);
    expect(await cluster.settle(outcome)).toBeInstanceOf(LockLostError);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it('that throws: the caller gets its error, and nothing is held', async () => {
    const cluster = await newCluster();
    const broken = new Error('the database is down');
    for (const issue of [() => Promise.reject(broken), () => raise(broken)]) {
      const { redlock } = await cluster.process({ tokens: { issue } });
      expect(await cluster.failure(redlock.acquire('a'))).toBe(broken);
      await cluster.advance(10);
      expect(cluster.holders('a')).toBe(0);
    }
  });

  it('that hangs costs one ttl, not a lock for ever', async () => {
    const cluster = await newCluster();
    const tokens = { issue: () => new Promise<number>(() => undefined) };
    const { redlock, nodes } = await cluster.process({ tokens, ttl: 3_000 });
    const startedAtMs = cluster.nowMs;
    expect(await cluster.failure(redlock.acquire('a'))).toBeInstanceOf(LockLostError);
    expect(cluster.nowMs - startedAtMs).toBeLessThanOrEqual(3_000);
    expect(nodes[0]!.asked('extend')).toEqual([]);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it('that rejects after the lock has ended crashes nothing', async () => {
    const cluster = await newCluster();
    let fail: (error: Error) => void = () => undefined;
    const tokens = { issue: () => new Promise<number>((_, reject) => (fail = reject)) };
    const { redlock } = await cluster.process({ tokens });
    expect(await cluster.failure(redlock.acquire('a'))).toBeInstanceOf(LockLostError);
    fail(new Error('too late'));
    await cluster.advance(10);
  });

  it.each([0, -1, 1.5, Number.NaN, 2 ** 53, '7', null, undefined, 5n])(
    'that issues %p is wrong use, and nothing is held',
    async (value) => {
      const { cluster, redlock } = await newProcess({
        tokens: { issue: async () => value as number },
      });
      expect(await cluster.failure(redlock.acquire('a'))).toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringMatching(/must issue positive safe integers/),
      });
      await cluster.advance(10);
      expect(cluster.holders('a')).toBe(0);
    },
  );

  it('is interrupted by close', async () => {
    const cluster = await newCluster();
    const tokens = { issue: () => new Promise<number>(() => undefined) };
    const { redlock } = await cluster.process({ tokens });
    const outcome = redlock.acquire('a').catch((error: unknown) => error);
    await cluster.advance(10);
    await cluster.settle(redlock.close());
    expect(await cluster.settle(outcome)).toMatchObject({ code: 'LOCK_LOST', reason: 'closed' });
  });
});

function raise(error: Error): never {
  throw error;
}
