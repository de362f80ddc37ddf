import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { redisFence } from '../../lib/fencing/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { startRedisCluster } from './support/redis-cluster.ts';

let servers: readonly RedisServer[] = [];
let cluster: Cluster;
beforeAll(async () => {
  servers = await startRedisCluster(3);
  cluster = new Cluster(servers.map(({ host, port }) => ({ host, port })));
}, 120_000);
afterAll(async () => {
  cluster?.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

it('redisFence claims and writes in the slot of each key of a Redis Cluster', async () => {
  const fence = redisFence(cluster, { maxAge: '30d' });
  for (let index = 0; index < 60; index += 1) {
    const key = index % 2 === 0 ? `order:${index}` : `seat:{${index}}:x`;
    const tag = /\{(.*)\}/.exec(key)?.[1] ?? key;
    const set = ['SET', `{${tag}}:data`, 'x'] as const;
    const token = { value: Date.now() * 1_000, keys: [key], holder: 'newer' };
    await fence.claim(token);
    await expect(fence.write(token, [set])).resolves.toEqual(['OK']);
    const older = { ...token, value: token.value - 1, holder: 'older' };
    await expect(fence.write(older, [set])).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
  }
});
