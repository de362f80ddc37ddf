import { findRedis } from './find-redis.ts';
import type { RedisServer, RedisServerOptions } from './redis-server.ts';

export { findRedis, findRedisForAll, forgetRedis } from './find-redis.ts';
export type { RedisProvider, RedisServer, RedisServerOptions, RedisWay } from './redis-server.ts';

/**
 * Starts `count` independent Redis servers at once, on free loopback ports and without persistence unless `options` ask
 * for it, and resolves when all of them answer. They end with this process, however it ends.
 * @throws {Error} when no way to run Redis is found, or a server does not start (then none is left)
 */
export async function startRedisServers(
  count: number,
  options?: RedisServerOptions,
): Promise<RedisServer[]> {
  const provider = await findRedis();
  return provider.start(count, options);
}
