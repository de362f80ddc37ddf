import { describe, expect, it } from '@jest/globals';
import { LockBusyError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newProcess = processFactory();

function sleep(cluster: Cluster, ms: number): Promise<void> {
  return new Promise((resolve) => void cluster.environment.timers.set(resolve, ms));
}

/** Writes down who was granted the lock, and releases it 10 ms later. */
async function enter(cluster: Cluster, order: string[], name: string, acquired: Promise<Lock>) {
  const lock = await acquired;
  order.push(name);
  await sleep(cluster, 10);
  await lock.release();
}

describe('in one process', () => {
  it('callers are served first come, first served', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    const order: string[] = [];
    const names = Array.from({ length: 20 }, (_, index) => `${index}`);
    const all = names.map((name) => enter(cluster, order, name, redlock.acquire('a')));
    await cluster.settle(Promise.all(all));
    expect(order).toEqual(names);
  });

  it('one caller per key asks the nodes, however many wait', async () => {
    const { cluster, redlock, node } = await newProcess({ wait: '10s' });
    cluster.occupy('a', [0, 1, 2], 60_000);
    const rejected = Promise.all(Array.from({ length: 50 }, () => rejection(redlock.acquire('a'))));
    await cluster.advance(5_000);
    expect(node.asked('acquire').length).toBeLessThanOrEqual(3);
    for (const error of await cluster.settle(rejected)) expect(error).toBeInstanceOf(LockBusyError);
  });

  it('no caller asks the nodes for a lock that is held here, and the next one does at its release', async () => {
    const { cluster, redlock, node } = await newProcess({ wait: '1m' });
    const lock = await cluster.settle(redlock.acquire('a'));
    const second = redlock.acquire('a');
    await cluster.advance(10_000);
    expect(node.asked('acquire')).toHaveLength(1);
    const releasedAtMs = cluster.nowMs;
    void lock.release();
    await cluster.settle(second);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(10);
    expect(node.asked('acquire')).toHaveLength(2);
  });
});

describe('the budget', () => {
  it.each([0, 5, 50, 299, 700, 5_000])(
    'of %i ms behind a holder ends in time, but for a round trip that is left',
    async (wait) => {
      const { cluster, redlock } = await newProcess();
      cluster.occupy('a', [0, 1, 2], 60_000);
      const startedAtMs = cluster.nowMs;
      const error = await cluster.failure(redlock.acquire('a', { wait }));
      const tookMs = cluster.nowMs - startedAtMs;
      expect(error).toMatchObject({ code: 'LOCK_BUSY', waitedMs: tookMs });
      expect([tookMs >= wait - 2, tookMs <= wait + 3]).toEqual([true, true]);
    },
  );

  it('of 0 is exactly one try', async () => {
    const { cluster, redlock, node } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(5_000);
    expect(node.asked('acquire')).toHaveLength(1);
  });
});
