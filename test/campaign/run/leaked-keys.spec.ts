import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { startRedisServers } from '../../support/redis-servers/index.ts';
import { respRequest } from '../../support/redis-servers/resp-request.ts';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import { findLeakedKeys } from './leaked-keys.ts';

describe('keys that should be gone', () => {
  let servers: RedisServer[] = [];

  beforeAll(async () => {
    servers = await startRedisServers(1, { own: true });
  }, 60_000);

  afterAll(() => Promise.all(servers.map((server) => server.stop())));

  it('are none after a lock was used, and then whatever else is left', async () => {
    const [server] = servers as [RedisServer];
    const redlock = new Redlock([new RedisLockNode(server.url)], { keyPrefix: 'campaign:' });
    redlock.open();
    try {
      const lock = await redlock.acquire('seat');
      expect(await findLeakedKeys(servers, 'campaign:')).toEqual([
        `campaign:seat on the server at port ${server.port}`,
      ]);
      await lock.release();
      expect(await findLeakedKeys(servers, 'campaign:')).toEqual([]);
    } finally {
      await redlock.close();
    }
    const { host, port } = server;
    const command = (...words: string[]) => respRequest({ address: { host, port } }, words);
    expect(await command('PERSIST', 'campaign:#floor:seat')).toBe('1');
    await command('SET', 'campaign:#marker:', 'of no one');
    expect((await findLeakedKeys(servers, 'campaign:')).toSorted()).toEqual([
      `campaign:#floor:seat on the server at port ${port}`,
      `campaign:#marker: on the server at port ${port}`,
    ]);
  }, 30_000);
});
