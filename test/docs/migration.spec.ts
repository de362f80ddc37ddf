import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../lib/index.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

/** What the locks of redlock, redis-semaphore and murlock come to on a server. */
class OtherLibrary {
  private readonly value = randomUUID();

  constructor(
    private readonly clients: readonly Redis[],
    private readonly name: string,
  ) {}

  async acquire(ttlMs: number): Promise<boolean> {
    const answers = await Promise.all(
      this.clients.map((client) => client.set(this.name, this.value, 'PX', ttlMs, 'NX')),
    );
    const isHeld = answers.filter((answer) => answer === 'OK').length > this.clients.length / 2;
    if (!isHeld) await this.release();
    return isHeld;
  }

  async release(): Promise<void> {
    const script = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1])";
    await Promise.all(this.clients.map((client) => client.eval(script, 1, this.name, this.value)));
  }
}

describe('side by side with another library', () => {
  afterEach(closeAll);
  const clients: Redis[] = [];
  const servers = useRedisServers(3, {}, () => {
    clients.push(...servers.map(({ url }) => new Redis(url)));
    return () => Promise.all(clients.map((client) => client.quit()));
  });

  it.each([
    ['redlock and @anchan828/nest-redlock', '', 'seat:12A', 3],
    ['redis-semaphore', 'mutex:', 'seat:12A', 3],
    ['murlock', '', 'UserService:update:7', 1],
  ])(
    'locks with the names of %s exclude in both directions',
    async (_name, keyPrefix, key, count) => {
      const nodes = servers.slice(0, count).map(({ url }) => url);
      const app = await startModule({}, { nodes, keyPrefix, restartGuard: false });
      const locks = app.get(LockService);
      const other = new OtherLibrary(clients.slice(0, count), `${keyPrefix}${key}`);

      const ours = await locks.acquire(key);
      await expect(other.acquire(5_000)).resolves.toBe(false);
      await ours.release();
      await expect(other.acquire(60_000)).resolves.toBe(true);
      await expect(locks.acquire(key, { wait: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      await other.release();
      await expect(locks.withLock(key, () => 'done', { wait: 0 })).resolves.toBe('done');
    },
  );
});
