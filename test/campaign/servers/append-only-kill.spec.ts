import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../../support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../support/redis-servers/index.ts';
import { LockClient } from './lock-client.ts';

const KILLS = 3;

describe('a lock on a single server that syncs always, without restart guard', () => {
  let server: RedisServer;
  let holder: LockClient;
  let other: LockClient;
  beforeEach(async () => {
    const args = ['--appendfsync', 'always'];
    [server] = (await startRedisServers(1, { appendonly: true, args })) as [RedisServer];
    const settings = { ttl: 20_000, nodeTimeout: 1_500, restartGuard: false };
    [holder, other] = await Promise.all([
      LockClient.start([server.url], settings),
      LockClient.start([server.url], settings),
    ]);
  });
  afterEach(async () => {
    await server.stop();
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
