import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newCluster = clusterFactory();
/** So long a key is kept for a process that is two ms away. */
const GRACE_MS = 20;

const queuesOf = ({ servers }: Cluster) =>
  servers.map(({ state }) => (state.queues.get('lock:a') ?? []).length);

describe('a place in line', () => {
  it('is never taken by a call with wait: 0, which takes no turn of another one either', async () => {
    const cluster = await newCluster();
    const [holder, first, hasty] = [
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
      await cluster.process(),
    ];
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    const granted = first.redlock.acquire('a').then(() => cluster.nowMs);
    await cluster.advance(50);
    const busy = await cluster.failure(hasty.redlock.acquire('a', { wait: 0 }));
    expect(busy).toMatchObject({ code: 'LOCK_BUSY' });
    expect([queuesOf(cluster), hasty.nodes[0]!.asked('wait')]).toEqual([[1, 1, 1], []]);
    for (const node of first.nodes) node.freeze();
    const releasedAtMs = cluster.nowMs;
    void lock.release();
    await cluster.advance(3);
    expect(await cluster.settle(hasty.redlock.tryAcquire('a'))).toBeNull();
    for (const node of first.nodes) node.resume();
    expect((await cluster.settle(granted)) - releasedAtMs).toBeLessThan(GRACE_MS);
  });
});
