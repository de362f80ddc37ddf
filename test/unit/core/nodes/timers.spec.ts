import { describe, expect, it } from '@jest/globals';
import { clusterFactory, processFactory } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

/** How many timers are set from now on, those of the network included. */
function countTimers({ environment: { timers } }: Cluster): () => number {
  const set = timers.set.bind(timers);
  let count = 0;
  timers.set = (...given) => {
    count += 1;
    return set(...given);
  };
  return () => count;
}

describe('the timers of a process', () => {
  it('are gone soon after its last lock, because what has ended waits for nothing', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000 });
    for (let round = 0; round < 2; round += 1) {
      const lock = await cluster.settle(process.redlock.acquire('a'));
      await cluster.settle(lock.release());
      await cluster.advance(200);
    }
    // After the node timeout of the first, and before that of the second: the timer of the extensions is left.
    expect(process.liveTimers).toBe(1);
    // After the first extension would have come, and before that of the second.
    await cluster.advance(650);
    expect(process.liveTimers).toBe(0);
  });

  it('are few, however many locks it holds and however long each vote took', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000 });
    const votes = Array.from({ length: 100 }, (_, number) => {
      for (const node of process.nodes) node.latencyMs = 2 + number;
      return process.redlock.acquire(`key${number}`);
    });
    await cluster.settle(Promise.all(votes));
    expect(process.liveTimers).toBeLessThan(30);
  });

  it('are not set for a lock that was lost', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000 });
    await cluster.settle(process.redlock.acquire('a'));
    for (const server of cluster.servers) server.deleteLock('lock:a');
    cluster.occupy('a', [0, 1, 2], 60_000);
    while (process.received('lost').length === 0) await cluster.advance(1);
    // Of the questions that were answered just now, and of the end of the validity, which nobody waits for any more.
    expect(process.liveTimers).toBe(2);
  });

  // Per extension a round, its messages there and back, and the alarm in a few steps.
  it.each([
    [true, 250],
    [false, 20],
  ])('of one held lock (extend: %s) are set a few times', async (extend, limit) => {
    const { cluster, redlock } = await newProcess({ ttl: 3_000, extend });
    const count = countTimers(cluster);
    await cluster.settle(redlock.acquire('a'));
    await cluster.advance(20_000);
    expect(count()).toBeLessThan(limit);
  });
});
