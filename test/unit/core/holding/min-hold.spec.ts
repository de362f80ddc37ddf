import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();

describe('minHold', () => {
  it('keeps the lock on the nodes although the work ended sooner', async () => {
    const cluster = await newCluster();
    const { redlock, nodes } = await cluster.process({ minHold: '2s' });
    const other = await cluster.process();
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.withLock('a', () => 'quick'));
    expect(cluster.nowMs - startedAtMs).toBeLessThan(10);
    await cluster.advance(1_950);
    expect(await cluster.settle(other.redlock.tryAcquire('a'))).toBeNull();
    await cluster.advance(100);
    expect(await cluster.settle(other.redlock.tryAcquire('a'))).not.toBeNull();
    expect(nodes[0]!.asked('extend')).toEqual([]);
  });

  it('also keeps others of this process out, who then get it without asking in vain', async () => {
    const cluster = await newCluster();
    const { redlock, nodes } = await cluster.process({ minHold: '2s', wait: '1m' });
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.withLock('a', () => 'quick'));
    await cluster.settle(redlock.acquire('a'));
    expect(cluster.nowMs - startedAtMs).toBeGreaterThanOrEqual(2_000);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(2_100);
    expect(nodes[0]!.asked('acquire')).toHaveLength(2);
  });

  it('holds also when the process dies: the ttl is raised to it', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl: 1_000, maxTtl: 5_000, minHold: 5_000 });
    await cluster.settle(redlock.acquire('a'));
    for (const server of cluster.servers)
      expect(server.state.locks.remainingMs('lock:a')).toBeGreaterThan(4_900);
  });

  it('releases at once when the work took longer', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ minHold: '1s' });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(1_500);
    await cluster.settle(lock.release());
    expect(cluster.holders('a')).toBe(0);
  });

  it('a released lock is not held by its former holder, and cannot be lost by it', async () => {
    const cluster = await newCluster();
    const { redlock, received } = await cluster.process({ minHold: '2900ms' });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(lock.release());
    expect([lock.isHeld, lock.remainingMs]).toEqual([false, 0]);
    await cluster.advance(5_000);
    expect(received('lost')).toEqual([]);
    expect(lock.signal.aborted).toBe(false);
    expect(cluster.holders('a')).toBe(0);
  });

  it('is not extended after the release, also when an extension was under way', async () => {
    const cluster = await newCluster();
    const { redlock, nodes } = await cluster.process({ minHold: '2900ms', latencyMs: 20 });
    const lock = await cluster.settle(redlock.acquire('a'));
    while (nodes[0]!.asked('extend').length === 0) await cluster.advance(1);
    await cluster.settle(lock.release());
    await cluster.advance(10_000);
    expect(nodes[0]!.asked('extend')).toHaveLength(1);
    expect(cluster.holders('a')).toBe(0);
  });
});
