import { expect, it } from '@jest/globals';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

it('locks that were granted together are extended together, so that few messages carry them', async () => {
  const { cluster, redlock, nodes } = await newProcess({ ttl: '3s' });
  const keys = Array.from({ length: 100 }, (_, index) => `key ${index}`);
  const locks = await cluster.settle(Promise.all(keys.map((key) => redlock.acquire(key))));
  await cluster.advance(1_500);
  for (const node of nodes) {
    const extended = node.asked('extend');
    expect(extended).toHaveLength(100);
    expect(new Set(extended.map(({ atMs }) => atMs)).size).toBe(1);
  }
  await cluster.settle(Promise.all(locks.map((lock) => lock.release())));
});
