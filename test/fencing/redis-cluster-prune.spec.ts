import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { hashSlot } from '../../lib/fencing/drivers/redis-fence-script.ts';
import { redisFence, type RedisFence } from '../../lib/fencing/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { SlotMover, startRedisCluster } from './support/redis-cluster.ts';

const DAY = 86_400_000;
const AGE = { olderThan: '30d' } as const;
const COUNT = 1_200;

const tokenOf = (key: string, ageDays: number) => ({
  value: (Date.now() - ageDays * DAY) * 1_000,
  keys: [key],
  holder: `${ageDays} days old`,
});
const stale = expect.objectContaining({ code: 'STALE_TOKEN', currentHolder: '' });

const KEYS = Array.from({ length: COUNT }, (_none, index) =>
  index % 2 === 0 ? `order:${index}` : `seat:{${index}}:x`,
);

describe('redisFence.prune on Redis Cluster', () => {
  let servers: readonly RedisServer[] = [];
  let cluster: Cluster;
  let fence: RedisFence;
  beforeAll(async () => {
    servers = await startRedisCluster(3);
    cluster = new Cluster(servers.map(({ host, port }) => ({ host, port })));
  }, 120_000);
  afterAll(async () => {
    cluster?.disconnect();
    await Promise.all(servers.map((server) => server.stop()));
  });
  beforeEach(async () => {
    await Promise.all(servers.map(({ url }) => onServer(url, (server) => server.flushall())));
    fence = redisFence(cluster);
  });

  async function onServer<Result>(url: string, use: (server: Redis) => Promise<Result>) {
    const server = new Redis(url);
    try {
      return await use(server);
    } finally {
      server.disconnect();
    }
  }

  it('prunes each of its servers, and keeps a floor in the slot of each fence', async () => {
    await Promise.all(KEYS.map((key) => fence.claim(tokenOf(key, 40))));
    await fence.claim(tokenOf('used', 2));
    await expect(fence.prune(AGE)).resolves.toBe(COUNT);
    await expect(fence.prune(AGE)).resolves.toBe(0);
    const slots = new Set(KEYS.map((key) => hashSlot(fence.fenceName(key))));
    const sizes = servers.map(({ url }) => onServer(url, (server) => server.dbsize()));
    const floors = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
    expect(floors).toBe(slots.size + 1);
    for (const key of KEYS.slice(0, 40)) {
      await expect(fence.claim(tokenOf(key, 31))).rejects.toEqual(stale);
      const tag = /\{(.*)\}/.exec(key)?.[1] ?? key;
      const command = ['SET', `{${tag}}:data`, 'x'] as const;
      await expect(fence.write(tokenOf(key, 31), [command])).rejects.toEqual(stale);
      await expect(fence.write(tokenOf(key, 29), [command])).resolves.toEqual(['OK']);
    }
    await fence.claim(tokenOf('used', 1));
  });

  it('refuses the token of a counter on any of its servers', async () => {
    await Promise.all(KEYS.map((key) => fence.claim(tokenOf(key, 40))));
    for (const key of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) {
      await fence.claim({ value: 7, keys: [key], holder: 'counted' });
      await expect(fence.prune(AGE)).rejects.toThrow(`its key '${key}' has the token of a counter`);
      await cluster.del(fence.fenceName(key));
    }
    await expect(fence.prune(AGE)).resolves.toBe(COUNT);
  });

  it('prunes through a client that has not connected yet, and puts a prefix in front of keys', async () => {
    const nodes = servers.slice(0, 1).map(({ host, port }) => ({ host, port }));
    for (const keyPrefix of ['', 'app:']) {
      const lazy = () => new Cluster(nodes, { lazyConnect: true, keyPrefix });
      const [first, second] = [lazy(), lazy()];
      try {
        for (const key of KEYS.slice(0, 50)) await redisFence(first).claim(tokenOf(key, 40));
        await expect(redisFence(second).prune(AGE)).resolves.toBe(50);
        await expect(redisFence(first).claim(tokenOf(KEYS[0]!, 35))).rejects.toEqual(stale);
      } finally {
        for (const client of [first, second]) client.disconnect();
      }
    }
  });

  describe('while a slot moves', () => {
    const key = KEYS[0]!;
    const inSlot = (name: string) => hashSlot(name) === hashSlot(`{${key}}`);
    let mover: SlotMover;
    let hasty: Cluster;
    beforeEach(async () => {
      mover = await SlotMover.begin(servers, hashSlot(`{${key}}`));
      const [{ host, port }] = servers as [RedisServer];
      hasty = new Cluster([{ host, port }], { retryDelayOnTryAgain: 5, maxRedirections: 6 });
    });
    afterEach(async () => {
      hasty.disconnect();
      await mover.end();
      mover.close();
    });

    it('leaves the fences in it to the next prune', async () => {
      const others = KEYS.filter((each) => !inSlot(fence.fenceName(each)));
      await Promise.all(others.map((each) => fence.claim(tokenOf(each, 40))));
      await mover.source.hset(fence.fenceName(key), 't', tokenOf(key, 40).value, 'h', 'old');
      await mover.start();
      await expect(redisFence(hasty).prune(AGE)).resolves.toBe(others.length);
      await mover.move(fence.fenceName(key));
      await expect(redisFence(hasty).prune(AGE)).resolves.toBe(0);
      await mover.end();
      await expect(redisFence(hasty).prune(AGE)).resolves.toBe(1);
      await expect(fence.claim(tokenOf(key, 31))).rejects.toEqual(stale);
    });

    it('admits no token below the floor, which is on one of two servers', async () => {
      await fence.claim(tokenOf(key, 40));
      await fence.prune(AGE);
      const [floor] = await mover.source.keys('*');
      await mover.start();
      const old = () => redisFence(hasty).claim(tokenOf(key, 31));
      await expect(old()).rejects.toThrow(/redirections/);
      await mover.move(floor!);
      await expect(old()).rejects.toThrow(/redirections/);
      await mover.end();
      await expect(old()).rejects.toEqual(stale);
      await redisFence(hasty).claim(tokenOf(key, 29));
    });
  });
});

it('prunes through a client for the one server of a cluster', async () => {
  const [server] = await startRedisCluster(1);
  const redis = new Redis(server!.url);
  try {
    const fence = redisFence(redis);
    for (const key of KEYS) void fence.claim(tokenOf(key, 40));
    await expect(fence.prune(AGE)).resolves.toBe(COUNT);
    await expect(fence.claim(tokenOf(KEYS[0]!, 35))).rejects.toEqual(stale);
  } finally {
    redis.disconnect();
    await server!.stop();
  }
}, 60_000);
