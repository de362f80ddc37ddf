import { describe, expect, it } from '@jest/globals';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { eventsOf, outcomeOf } from './support.ts';

const now = () => performance.now();

describe('a burst of 20,000 locks on different free keys', () => {
  it('is granted as a whole by three healthy servers, nearly every lock at its first try', async () => {
    const cluster = await RedisCluster.start(3);
    try {
      // The default wait of a service with restart guard, without the quarantine of fresh servers.
      const { redlock, events } = await cluster.process({ ttl: '10s', wait: '12s' });
      const calls = Array.from({ length: 20_000 }, (_, index) =>
        outcomeOf(
          redlock.acquire(`burst${index}`).then((lock) => lock.release()),
          now,
        ),
      );
      const failed = (await Promise.all(calls)).filter(({ error }) => error !== undefined);
      expect([failed.length, failed[0]?.error]).toEqual([0, undefined]);
      const tries = eventsOf(events, 'acquired').reduce((sum, event) => sum + event.tries, 0);
      expect(tries).toBeLessThan(1.05 * calls.length);
      expect(eventsOf(events, 'release-incomplete').length).toBe(0);
    } finally {
      await cluster.stop();
    }
  }, 90_000);
});
