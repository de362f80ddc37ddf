import { afterAll, beforeAll } from '@jest/globals';
import { startRedisServers, type RedisServer, type RedisServerOptions } from './index.ts';

/** Starts servers before the tests of this block and stops them after them. They are in the array from the first test on. */
export function useRedisServers(
  count: number,
  options: RedisServerOptions & { own?: boolean } = {},
): readonly RedisServer[] {
  const servers: RedisServer[] = [];
  beforeAll(async () => {
    servers.push(...(await startRedisServers(count, options)));
  }, 120_000);
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
  });
  return servers;
}
