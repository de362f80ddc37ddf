import { describe, expect, it } from '@jest/globals';
import { processFactory } from '../support/cluster.ts';

describe('a process with as many tries under way as it may have', () => {
  const newProcess = processFactory();

  it('calls it an overload, never contention, when the time of a caller is over', async () => {
    const { cluster, redlock } = await newProcess({ concurrentTries: 1, ttl: '10s' });
    cluster.servers[1]!.freeze();
    cluster.servers[2]!.freeze();
    const first = cluster.failure(redlock.acquire('a', { wait: '1m' }));
    const error = await cluster.failure(redlock.acquire('b', { wait: 0 }));
    expect(error).toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
      causes: [{ address: 'this process', reason: 'overloaded', elapsedMs: 500 }],
    });
    expect((error as Error).message).toMatch(/1 tries .* \(option concurrentTries\)/);
    await cluster.settle(redlock.close());
    await first;
  });

  it('extends and releases all the same, and takes nested locks first', async () => {
    const { cluster, redlock, node } = await newProcess({ concurrentTries: 1, latencyMs: 20 });
    const order: string[] = [];
    const take = async (key: string) => {
      const lock = await redlock.acquire(key);
      order.push(key);
      await lock.release();
    };
    let begin!: () => void;
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const outer = redlock.withLock('outer', async (lock) => {
      await begun;
      const nested = take('nested');
      await lock.extend();
      await nested;
    });
    await cluster.advance(50);
    const others = ['b', 'c'].map(take);
    begin();
    await cluster.advance(15);
    expect([node.asked('acquire').length, node.asked('extend').length]).toEqual([2, 1]);
    await cluster.settle(Promise.all([outer, ...others]));
    expect(order).toEqual(['b', 'nested', 'c']);
  });

  it('lets the process read its sockets between tries that all nodes refuse at once', async () => {
    const { cluster, redlock } = await newProcess({ concurrentTries: 10 });
    for (const server of cluster.servers) server.kill();
    await cluster.advance(20_000);
    let refused = 0;
    const calls = Array.from({ length: 100 }, (_, index) =>
      redlock.acquire(`key-${index}`, { wait: 0 }).catch(() => (refused += 1)),
    );
    for (let reaction = 0; reaction < 10_000; reaction += 1) await Promise.resolve();
    expect(refused).toBeLessThanOrEqual(10);
    await cluster.settle(Promise.all(calls));
    expect(refused).toBe(100);
  });
});
