import { describe, expect, it } from '@jest/globals';
import { useRedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { outcomeOf } from './support.ts';

const now = () => performance.now();

describe('a call without a wait, right after its connections were cut', () => {
  const cluster = useRedisCluster(1);
  const cut = () => cluster.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

  it('waits until the votes can be asked', async () => {
    const { redlock } = await cluster.process({ ttl: '9s', nodeTimeout: '3s' });
    for (let round = 0; round < 10; round += 1) {
      const key = cluster.newKey();
      await cut();
      const { code } = await outcomeOf(redlock.acquire(key, { wait: 0 }), now);
      expect(code).toBe('granted');
      await cut();
      expect((await outcomeOf(redlock.tryAcquire(key), now)).code).toBe('null');
    }
  });

  it('runs a cron job once in the fleet, also when the server is restarted', async () => {
    const options = { ttl: '9s', nodeTimeout: '3s' } as const;
    const fleet = await Promise.all([1, 2, 3].map(() => cluster.process(options)));
    for (let tick = 0; tick < 6; tick += 1) {
      const key = cluster.newKey();
      await (tick % 3 === 2 ? cluster.servers[0]!.restart() : cut());
      const ran = fleet.map(({ redlock }) => redlock.tryAcquire(key, { minHold: '5s' }));
      const codes = await Promise.all(ran.map((lock) => outcomeOf(lock, now)));
      expect(codes.map(({ code }) => code).sort()).toEqual(['granted', 'null', 'null']);
    }
  });
});
