import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { blockEventLoop, eventsOf, outcomeOf } from './support.ts';

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

  it.each(['before', 'after'])(
    'takes no server to be away for callers that wait behind a try whose request left %s the block',
    async (when) => {
      const { redlock } = await cluster.process({ ttl });
      for (let round = 0; round < 2; round += 1) {
        const key = cluster.newKey();
        // More than one: the second is collected, and leaves at the end of the tick.
        const other = outcomeOf(redlock.tryAcquire(cluster.newKey()), now);
        const calls = [0, 0, 600].map((wait) => outcomeOf(redlock.tryAcquire(key, { wait }), now));
        if (when === 'before') await new Promise((resolve) => process.nextTick(resolve));
        blockEventLoop(BLOCK_MS);
        const outcomes = await Promise.all([other, ...calls]);
        expect(outcomes.map(({ code }) => code)).toEqual(['granted', 'granted', 'null', 'null']);
      }
    },
  );

  it('knows that its releases were confirmed, and that its locks were extended', async () => {
    const { redlock, events } = await cluster.process({ ttl });
    const locks = await Promise.all([1, 2, 3].map(() => redlock.acquire(cluster.newKey())));
    const extended = Promise.allSettled(locks.map((lock) => lock.extend()));
    blockEventLoop(BLOCK_MS);
    expect((await extended).map(({ status }) => status)).toEqual(locks.map(() => 'fulfilled'));
    const released = Promise.all(locks.map((lock) => lock.release()));
    blockEventLoop(BLOCK_MS);
    await released;
    expect(eventsOf(events, 'release-incomplete').length).toBe(0);
  });

  it('never calls a lock held again that ended meanwhile', async () => {
    const { redlock } = await cluster.process({ ttl: 1_000 });
    const lock = await redlock.acquire(cluster.newKey());
    const extended = outcomeOf(lock.extend(), now);
    blockEventLoop(1_100);
    expect(lock.isHeld).toBe(false);
    expect((await extended).code).toBe('LOCK_LOST');
    expect(lock.isHeld).toBe(false);
  });
});
