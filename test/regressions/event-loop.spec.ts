import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { blockEventLoop, outcomeOf } from './support.ts';

const now = () => performance.now();
/** Ttl of the defaults; a block of the event loop below takes longer than the node timeout that follows from it. */
const ttl = '10s';
const BLOCK_MS = 700;

describe('a process whose event loop was blocked for longer than the node timeout', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start(3);
  });
  afterEach(() => cluster.reset());
  afterAll(() => cluster.stop());

  it('gets the locks that it had asked for, because the answers have arrived', async () => {
    const { redlock } = await cluster.process({ ttl });
    for (let round = 0; round < 3; round += 1) {
      // More than one: what is written together at the end of a tick leaves after the block.
      const calls = [1, 2, 3].map(() => outcomeOf(redlock.tryAcquire(cluster.newKey()), now));
      blockEventLoop(BLOCK_MS);
      const outcomes = await Promise.all(calls);
      expect(outcomes.map(({ code }) => code)).toEqual(['granted', 'granted', 'granted']);
    }
  });
});
