import { findRedis } from './find-redis.ts';
import type { RedisServer, RedisServerOptions } from './redis-server.ts';

export { findRedis, findRedisForAll, forgetRedis } from './find-redis.ts';
export type {
  RedisProvider,
  RedisServer,
  RedisServerOptions,
  RedisWay,
  RestartOptions,
} from './redis-server.ts';

/**
 * Starts `count` independent Redis servers at once, on free loopback ports and without persistence unless `options` ask
 * for it, and resolves when all of them answer. They end with this process, however it ends.
 *
 * With REDIS_NODES set, the first `count` servers it names are used as they are, shared with everybody, unless `own` or
 * an option that a running server cannot take asks for servers started here.
 * @param options `own`: servers that can be frozen, killed and restarted, whatever REDIS_NODES says; default false
 * @throws {Error} when no way to run Redis is found, or a server does not start (then none is left)
 */
export async function startRedisServers(
  count: number,
  { own = false, ...options }: RedisServerOptions & { own?: boolean } = {},
): Promise<RedisServer[]> {
  const provider = await findRedis({ own: own || Object.keys(options).length > 0 });
  return provider.start(count, options);
}
