import { afterAll, beforeAll } from '@jest/globals';
import { startRedisServers, type RedisServer, type RedisServerOptions } from './index.ts';

/**
 * Starts servers before the tests of this block and stops them after them. They are in the array from the first test on.
 * @param setUp runs once they are there; what it returns runs before they are stopped
 */
export function useRedisServers(
  count: number,
  options: RedisServerOptions & { own?: boolean } = {},
  setUp: (servers: readonly RedisServer[]) => unknown = () => undefined,
): readonly RedisServer[] {
  const servers: RedisServer[] = [];
  let tearDown: unknown;
  beforeAll(async () => {
    servers.push(...(await startRedisServers(count, options)));
    tearDown = await setUp(servers);
  }, 120_000);
  afterAll(async () => {
    if (typeof tearDown === 'function') await tearDown();
    await Promise.all(servers.map((server) => server.stop()));
  });
  return servers;
}
