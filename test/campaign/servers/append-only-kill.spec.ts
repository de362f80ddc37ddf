import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { eventually } from '../../support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../support/redis-servers/index.ts';
import { LockClient } from './lock-client.ts';
import { infoField, settingOf, withAdmin } from './server-admin.ts';

const KILLS = 3;

let server: RedisServer;

async function startWith(policy: string): Promise<void> {
  [server] = (await startRedisServers(1, {
    appendonly: true,
    args: ['--appendfsync', policy],
  })) as [RedisServer];
}
afterEach(() => server.stop());

function counter(): Promise<number> {
  return withAdmin(server, async (admin) => Number(await admin.get('counter')));
}

/** Counts up in the server until it is killed, and starts it again: what was acknowledged, sent, and then there. */
async function killWhileWriting(): Promise<{ acknowledged: number; sent: number; found: number }> {
  const client = new Redis(server.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  client.on('error', () => undefined);
  let [acknowledged, sent, answers] = [0, 0, 0];
  const increment = async (): Promise<void> => {
    sent += 1;
    acknowledged = await client.incr('counter');
    answers += 1;
  };
  // Several at once, so that some are always on their way.
  const write = async (): Promise<never> => {
    for (;;) await Promise.all(Array.from({ length: 10 }, increment));
  };
  const writing = write().catch(() => undefined);
  await eventually(() => expect(answers).toBeGreaterThanOrEqual(100));
  await server.kill();
  await writing;
  client.disconnect();
  await server.restart({ keepData: true });
  return { acknowledged, sent, found: await counter() };
}

describe('a server with an append-only file that is killed while it writes', () => {
  it('and syncs always: has everything that it acknowledged, and nothing that was not sent', async () => {
    await startWith('always');
    let before = 0;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const { acknowledged, sent, found } = await killWhileWriting();
      expect(found).toBeGreaterThanOrEqual(acknowledged);
      expect(found).toBeLessThanOrEqual(before + sent);
      before = found;
    }
  });

  it('and syncs every second: has everything up to its last sync', async () => {
    await startWith('everysec');
    let before = 0;
    for (let kill = 0; kill < KILLS; kill += 1) {
      await withAdmin(server, async (admin) => {
        for (let write = 0; write < 100; write += 1) await admin.incr('counter');
        await eventually(async () => {
          const waiting = ['aof_buffer_length', 'aof_pending_bio_fsync'];
          const left = await Promise.all(waiting.map((name) => infoField(admin, name)));
          expect(left).toEqual(['0', '0']);
        });
      });
      const synced = await counter();
      expect(synced).toBe(before + 100);
      const { sent, found } = await killWhileWriting();
      expect(found).toBeGreaterThanOrEqual(synced);
      expect(found).toBeLessThanOrEqual(synced + sent);
      before = found;
    }
  });

  it('starts with a torn end of the file, and has what was written before it', async () => {
    await startWith('always');
    const folder = await withAdmin(server, async (admin) => {
      await admin.incr('counter');
      await admin.incr('counter');
      return settingOf(admin, 'dir');
    });
    await server.kill();
    const file = await newestFile(folder, /\.aof$/);
    await truncate(file, (await stat(file)).size - 3);
    await server.restart({ keepData: true });
    expect(await counter()).toBe(1);
  });
});

async function newestFile(folder: string, name: RegExp): Promise<string> {
  const files = (await readdir(folder, { recursive: true })).filter((each) => name.test(each));
  const ages = files.map(async (each) => {
    const path = join(folder, each);
    return { path, mtimeMs: (await stat(path)).mtimeMs };
  });
  const newest = (await Promise.all(ages)).sort((a, b) => b.mtimeMs - a.mtimeMs)[0];
  if (newest === undefined) throw new Error(`${folder} holds no ${String(name)}`);
  return newest.path;
}

describe('a lock on a single server that syncs always, without restart guard', () => {
  let holder: LockClient;
  let other: LockClient;
  beforeEach(async () => {
    await startWith('always');
    const settings = { ttl: 20_000, nodeTimeout: 1_500, restartGuard: false };
    [holder, other] = await Promise.all([
      LockClient.start([server.url], settings),
      LockClient.start([server.url], settings),
    ]);
  });
  afterEach(async () => {
    const complaints = await Promise.all([holder.finish(), other.finish()]);
    if (complaints.join('') !== '') throw new Error(complaints.join('\n'));
  });

  it('stays with its holder when the server is killed, and tokens go on growing', async () => {
    const { token } = await holder.acquire('key', 20_000);
    for (let kill = 0; kill < KILLS; kill += 1) {
      await server.kill();
      expect((await other.acquire('key')).outcome).toBe('QUORUM_UNAVAILABLE');
      await server.restart({ keepData: true });
      await eventually(async () => expect((await other.acquire('key')).outcome).toBe('LOCK_BUSY'));
    }
    await eventually(async () =>
      expect(await holder.extend('key')).toMatchObject({ outcome: 'done', token }),
    );
    await holder.release('key');
    expect((await other.acquire('key', 20_000)).token).toBeGreaterThan(token!);
  });
});
