import { findDocker } from './docker-way.ts';
import { findPackage } from './package-way.ts';
import { findOnPath } from './path-way.ts';
import { providerOf } from './provider.ts';
import type { FoundRedis, RedisProvider, RedisWay } from './redis-server.ts';
import { type RedisFinder, searchWays } from './search-ways.ts';
import { findUrls } from './urls-way.ts';

/** Carries what one process has found to the processes it starts, as JSON. */
const FOUND_VARIABLE = 'REDIS_SERVERS_FOUND';

const FINDERS: Readonly<Record<RedisWay, RedisFinder>> = {
  urls: findUrls,
  path: findOnPath,
  docker: findDocker,
  package: findPackage,
};

/**
 * Finds a way to run Redis: servers named in REDIS_NODES, else redis-server or valkey-server on PATH, else Docker, else
 * the Debian package in a cache folder. REDIS_SERVERS=urls|path|docker|package allows one of them only.
 * @param options `own`: servers of one's own, so REDIS_NODES is passed over; default false
 * @throws {Error} that lists all ways, and why each one failed, when there is none
 */
export async function findRedis({ own = false } = {}): Promise<RedisProvider> {
  const handedOn = process.env[FOUND_VARIABLE];
  if (handedOn) {
    const found = JSON.parse(handedOn) as FoundRedis;
    if (!own || found.way !== 'urls') return providerOf(found);
  }
  return providerOf(await searchWays(FINDERS, { forced: process.env.REDIS_SERVERS, own }));
}

/** Finds Redis once for this process and for all it starts from now on: they search no more. */
export async function findRedisForAll(): Promise<RedisProvider> {
  const found = await searchWays(FINDERS, { forced: process.env.REDIS_SERVERS });
  process.env[FOUND_VARIABLE] = JSON.stringify(found);
  return providerOf(found);
}

/** Undoes findRedisForAll. */
export function forgetRedis(): void {
  delete process.env[FOUND_VARIABLE];
}
