import { describe, expect, it } from '@jest/globals';
import { QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { clusterFactory, processFactory } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
const TTL_MS = 3_000;

/** Two processes on a cluster that has been up long enough to vote. */
async function guarded(cluster: Cluster, restartGuard = true) {
  const holder = await cluster.process({ ttl: TTL_MS, restartGuard });
  const other = await cluster.process({ ttl: TTL_MS, restartGuard });
  await cluster.advance(TTL_MS);
  return { holder, other };
}

describe('nodes that restart without their data', () => {
  it('do not give away a lock that they forgot', async () => {
    const cluster = await newCluster(3);
    const { holder, other } = await guarded(cluster);
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    // Not extended any more: the holder's process hangs, but its validity still runs.
    for (const node of holder.nodes) node.freeze();
    cluster.servers[0]?.restart({ keepData: false });
    cluster.servers[1]?.restart({ keepData: false });
    await cluster.advance(50);
    const taken: boolean[] = [];
    while (lock.isHeld) {
      taken.push((await cluster.settle(other.redlock.tryAcquire('a').catch(() => null))) !== null);
      await cluster.advance(100);
    }
    expect(taken.length).toBeGreaterThan(10);
    expect(taken).not.toContain(true);
    for (const node of holder.nodes) node.resume();
  });

  it('would give it away without the guard: what it is for', async () => {
    const cluster = await newCluster(3);
    const { holder, other } = await guarded(cluster, false);
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    for (const node of holder.nodes) node.freeze();
    for (const index of [0, 1]) cluster.servers[index]?.restart({ keepData: false });
    await cluster.advance(50);
    expect(await cluster.settle(other.redlock.tryAcquire('a'))).not.toBeNull();
    expect(lock.isHeld).toBe(true);
    for (const node of holder.nodes) node.resume();
  });

  it('one after another: the holder keeps its lock, and nobody else gets it', async () => {
    const cluster = await newCluster(3);
    const { holder, other } = await guarded(cluster);
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    for (const server of cluster.servers) {
      server.restart({ keepData: false });
      for (let step = 0; step < 45; step += 1) {
        await cluster.advance(100);
        const outcome = await cluster.settle(other.redlock.tryAcquire('a').catch(() => null));
        expect(outcome).toBeNull();
      }
      expect(lock.isHeld).toBe(true);
    }
    expect(cluster.holdersOf('a')).toEqual(cluster.servers.map(() => lock.token.holder));
    await cluster.settle(lock.release());
    const next = await cluster.settle(other.redlock.acquire('a'));
    expect(next.token.value).toBeGreaterThan(lock.token.value);
  });

  it('all at once: no lock until the guard has passed, then with a larger token', async () => {
    const cluster = await newCluster(3);
    const { holder, other } = await guarded(cluster);
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    const restartedAtMs = cluster.nowMs;
    for (const server of cluster.servers) server.restart({ keepData: false });
    await cluster.advance(50);
    const error = await cluster.failure(other.redlock.acquire('a', { wait: 0 }));
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect((error as QuorumUnavailableError).message).toMatch(
      /after its restart \(restart guard\)/,
    );
    const next = await cluster.settle(other.redlock.acquire('a', { wait: '10s' }));
    expect(cluster.nowMs - restartedAtMs).toBeGreaterThanOrEqual(TTL_MS);
    expect(lock.isHeld).toBe(false);
    expect(next.token.value).toBeGreaterThan(lock.token.value);
  });

  it('FLUSHALL is noticed like a restart', async () => {
    const cluster = await newCluster(3);
    const { holder, other } = await guarded(cluster);
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    for (const node of holder.nodes) node.freeze();
    for (const server of cluster.servers) server.flush();
    expect(await cluster.settle(other.redlock.tryAcquire('a').catch(() => null))).toBeNull();
    expect(lock.isHeld).toBe(true);
    for (const node of holder.nodes) node.resume();
  });
});

describe('a new cluster', () => {
  it('grants its first lock within the default wait, once late, then never again', async () => {
    const { cluster, redlock } = await newProcess({ ttl: TTL_MS, restartGuard: true });
    const startedAtMs = cluster.nowMs;
    await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
    expect(cluster.nowMs - startedAtMs).toBeGreaterThan(2_900);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(3_500);
    const later = await cluster.process({ ttl: TTL_MS, restartGuard: true });
    const againAtMs = cluster.nowMs;
    await cluster.settle(later.redlock.acquire('b'));
    expect(cluster.nowMs - againAtMs).toBeLessThan(20);
  });
});
