import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { countWrites } from '../support/count-writes.ts';
import { eventually } from '../support/eventually.ts';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { blockEventLoop, outcomeOf } from './support.ts';

const now = () => performance.now();
/** With the ttl of the defaults; a block of the event loop below takes longer than the node timeout that follows from it. */
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

  it('delays the release of a section by what its caller does next once, and not again', async () => {
    const { redlock } = await cluster.process({ ttl });
    /** Whether the release had left when its caller went on. */
    const leftAtOnce = async () => {
      await redlock.withLock(cluster.newKey(), () => undefined);
      let before = 0;
      await redlock.withLock(cluster.newKey(), () => void (before = countWrites()));
      return countWrites() > before;
    };
    // A machine that stalls between two calls leaves nothing to wait for: then that is none of the work of the caller.
    await eventually(async () => {
      const isLeft = await leftAtOnce();
      if (!isLeft) blockEventLoop(200);
      expect(isLeft).toBe(false);
    });
    for (let round = 0; round < 5; round += 1) expect(await leftAtOnce()).toBe(true);
  });
});
