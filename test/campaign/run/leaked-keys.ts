import { Redis } from 'ioredis';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';

/**
 * Keys that are left on the servers and should not be: locks, and anything that would never expire. Ask when everybody has
 * let go and a ttl has passed: floors and the gate expire later, and the one marker of a server stays for good.
 */
export async function findLeakedKeys(
  servers: readonly RedisServer[],
  keyPrefix: string,
): Promise<string[]> {
  const perServer = await Promise.all(servers.map((server) => leakedAt(server, keyPrefix)));
  return perServer.flat();
}

async function leakedAt({ url, port }: RedisServer, keyPrefix: string): Promise<string[]> {
  const redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0 });
  try {
    await redis.connect();
    const names = await redis.keys('*');
    const ttls = await Promise.all(names.map((name) => redis.pttl(name)));
    return names
      .filter((name, index) => {
        if (name === `${keyPrefix}#marker`) return false;
        const mayStay =
          name.startsWith(`${keyPrefix}#floor:`) ||
          [`${keyPrefix}#marker:gate`, `${keyPrefix}#marker:configurations`].includes(name) ||
          // Queues end ten seconds after the last one stood in them.
          name.endsWith('#queue');
        return !(mayStay && ttls[index]! > 0);
      })
      .map((name) => `${name} on the server at port ${port}`);
  } finally {
    redis.disconnect();
  }
}
