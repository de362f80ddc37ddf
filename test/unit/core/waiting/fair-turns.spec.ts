import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const TURNS = 300;

/** Many callers of a busy process and one of another take turns; the share of the other one. */
async function shareOf(cluster: Cluster, busy: LockProcess, other: LockProcess): Promise<number> {
  const { timers } = cluster.environment;
  let all = 0;
  let others = 0;
  const caller = async ({ redlock }: LockProcess): Promise<void> => {
    while (all < TURNS) {
      await redlock.withLock('a', async () => {
        all += 1;
        if (redlock === other.redlock) others += 1;
        await new Promise<void>((resolve) => void timers.set(resolve, 2));
      });
    }
  };
  const callers = Array.from({ length: 12 }, () => caller(busy));
  await cluster.settle(Promise.all([...callers, caller(other)]));
  return others / all;
}

describe('a process with many waiters lets another one go first', () => {
  it('although the other is slower to hear of a release and to ask', async () => {
    const cluster = await newCluster(3);
    const busy = await cluster.process({ wait: '1m' });
    const other = await cluster.process({ wait: '1m', latencyMs: 6 });
    const share = await shareOf(cluster, busy, other);
    expect(share).toBeGreaterThan(0.2);
  });

  it('also where the last node that answers does not know of it', async () => {
    const cluster = await newCluster(3);
    const busy = await cluster.process({ wait: '1m' });
    const other = await cluster.process({ wait: '1m', latencyMs: 6 });
    busy.nodes[1]!.latencyMs = 2.2;
    busy.nodes[2]!.latencyMs = 4;
    other.nodes[1]!.watch = () => undefined;
    const share = await shareOf(cluster, busy, other);
    expect(share).toBeGreaterThan(0.2);
  });
});
