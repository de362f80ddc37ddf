import { expect, it } from '@jest/globals';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { useRedisServers } from '../../support/redis-servers/use-redis-servers.ts';

const HOUR_MS = 3_600_000;

// On Linux only: elsewhere the start of the server fails with that reason.
const servers = useRedisServers(1, { movableClock: true });

it('a lock node whose server jumps by an hour ahead, and back, votes again', async () => {
  const redlock = new Redlock([new RedisLockNode(servers[0]!.url)], {
    ttl: '1s',
    restartGuard: true,
  });
  redlock.open();
  try {
    let newest = 0;
    for (const offsetMs of [0, HOUR_MS, 0]) {
      await servers[0]!.moveClock(offsetMs);
      const lock = await redlock.acquire('key', { wait: '20s' });
      expect(lock.token.value).toBeGreaterThan(newest);
      newest = lock.token.value;
      await lock.release();
    }
  } finally {
    await redlock.close();
  }
});
