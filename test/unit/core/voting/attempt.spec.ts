import { expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();

it('tokens need one ballot, once a process knows that the floor is ahead of its clock', async () => {
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
