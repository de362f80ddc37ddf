import { describe, expect, it } from '@jest/globals';
import { processFactory } from '../support/cluster.ts';

describe('a release to a node of a cluster', () => {
  const newProcess = processFactory();

  it('goes over the next connection when this one closed, without an answer or before it was sent', async () => {
    const { cluster, redlock, node } = await newProcess({}, 1);
    for (const whenSent of [true, false]) {
      const lock = await cluster.settle(redlock.acquire('a'));
      if (whenSent) node.failNext('lose-request', { command: 'release' });
      else node.disconnect();
      const released = lock.release();
      await cluster.advance(1);
      if (whenSent) node.disconnect();
      await cluster.settle(released);
      expect(cluster.holders('a')).toBe(1);
      await cluster.advance(50);
      expect(cluster.holders('a')).toBe(0);
    }
  });
});
