import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import type { RedlockModuleOptions } from '../../lib/index.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { removeProjects, writePrograms, type ConsumerProject } from './consumer-project.ts';

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

describe('docs/migration.md', () => {
  afterEach(closeAll);
  afterAll(removeProjects);
  const clients: Redis[] = [];
  let project: ConsumerProject;
  const servers = useRedisServers(3, {}, () => {
    clients.push(...servers.map(({ url }) => new Redis(url)));
    return () => Promise.all(clients.map((client) => client.quit()));
  });
  beforeAll(async () => {
    project = await writePrograms('docs/migration.md', [servers[0]!.url]);
  });

  async function start(module: unknown) {
    const building = Test.createTestingModule({ imports: [module as never] });
    return closeLater(await (await building.setLogger(silentLogger).compile()).init());
  }

  async function startLocks(options: RedlockModuleOptions) {
    const { LockService, RedlockModule } = await project.loadPackage();
    return (await start(RedlockModule.forRoot(options))).get(LockService);
  }

  it.each([
    ['redlock and @anchan828/nest-redlock', '', 'seat:12A', 3],
    ['redis-semaphore', 'mutex:', 'seat:12A', 3],
    ['murlock', '', 'UserService:update:7', 1],
  ])(
    'says how locks with the names of %s exclude in both directions',
    async (_name, keyPrefix, key, count) => {
      const nodes = servers.slice(0, count).map(({ url }) => url);
      const locks = await startLocks({ nodes, keyPrefix, restartGuard: false });
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

  it('has an application whose lock excludes one of @anchan828/nest-redlock', async () => {
    const { AppModule, Comments } = await project.load('app.module.ts');
    const comments = (await start(AppModule)).get(Comments);
    const other = new OtherLibrary(clients.slice(0, 1), 'projects/7/comments');
    await expect(comments.addComment(7, 'first')).resolves.toBe('7: first');
    await expect(other.acquire(60_000)).resolves.toBe(true);
    await expect(comments.addComment(7, 'late')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    await other.release();
  });
});
