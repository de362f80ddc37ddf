import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';
import type { LockProcess } from '../support/cluster.ts';

describe('tokens', () => {
  const newCluster = clusterFactory();
  const DAY_MS = 86_400_000;

  it('grow with every grant, whatever the clocks of the processes do', async () => {
    const cluster = await newCluster(5);
    const processes: LockProcess[] = [];
    for (const wallErrorMs of [0, -3_600_000, 40_000, 0.9 * DAY_MS, 3 * DAY_MS, -5])
      processes.push(await cluster.process({ wallErrorMs }));
    let last = 0;
    for (let round = 0; round < 60; round += 1) {
      if (round === 30) cluster.environment.shiftWallClock(-30_000);
      const { redlock } = processes[(round * 7) % processes.length]!;
      const keys = round % 5 === 0 ? ['a', 'b', 'c'] : 'b';
      const lock = await cluster.settle(redlock.acquire(keys, { wait: 0 }));
      expect(lock.token.value).toBeGreaterThan(last);
      last = lock.token.value;
      await cluster.settle(lock.release());
    }
  });

  it('need one ballot, once a process knows that the floor is ahead of its clock', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const waiter = await cluster.process();
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.failure(waiter.redlock.acquire('a', { wait: 0 }));
    await cluster.settle(first.release());
    for (let round = 0; round < 2; round += 1)
      await cluster.settle((await cluster.settle(waiter.redlock.acquire('a'))).release());
    expect(waiter.nodes[0]!.asked('acquire')).toHaveLength(3);
  });
});
