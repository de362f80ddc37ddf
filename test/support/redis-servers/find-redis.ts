import { findDocker } from './docker-way.ts';
import { findPackage } from './package-way.ts';
import { findOnPath } from './path-way.ts';
import { providerOf } from './provider.ts';
import {
  type FoundRedis,
  type NotFound,
  REDIS_WAYS,
  type RedisProvider,
  type RedisWay,
} from './redis-server.ts';
import { findUrls } from './urls-way.ts';

/** Carries what one process has found to the processes it starts, as JSON. */
const FOUND_VARIABLE = 'REDIS_SERVERS_FOUND';

const FINDERS: Record<RedisWay, () => Promise<FoundRedis | NotFound>> = {
  urls: findUrls,
  path: findOnPath,
  docker: findDocker,
  package: findPackage,
};

const HINTS: Record<RedisWay, string> = {
  urls: 'name running servers: REDIS_NODES=redis://127.0.0.1:6379,redis://127.0.0.1:6380,…',
  path: 'install redis-server or valkey-server (apt-get install redis-server, brew install redis)',
  docker: 'start Docker, or another container runtime that testcontainers knows',
  package: 'on Debian or Ubuntu, let apt-get reach its package source: no root is needed',
};

/**
 * Finds a way to run Redis: servers named in REDIS_NODES, else redis-server or valkey-server on PATH, else Docker, else
 * the Debian package in a cache folder. REDIS_SERVERS=urls|path|docker|package allows one of them only.
 * @throws {Error} that lists all ways, and why each one failed, when there is none
 */
export async function findRedis(): Promise<RedisProvider> {
  const handedOn = process.env[FOUND_VARIABLE];
  if (handedOn) return providerOf(JSON.parse(handedOn) as FoundRedis);
  return providerOf(await search());
}

/** Finds Redis once for this process and for all it starts from now on: they search no more. */
export async function findRedisForAll(): Promise<RedisProvider> {
  const found = await search();
  process.env[FOUND_VARIABLE] = JSON.stringify(found);
  return providerOf(found);
}

/** Undoes findRedisForAll. */
export function forgetRedis(): void {
  delete process.env[FOUND_VARIABLE];
}

async function search(): Promise<FoundRedis> {
  const forced = forcedWay();
  const reasons: string[] = [];
  for (const way of forced ? [forced] : REDIS_WAYS) {
    const found = await FINDERS[way]();
    if ('way' in found) return found;
    reasons.push(`  ${way}: ${HINTS[way]}\n    (${found.reason})`);
  }
  const forcedNote = forced ? `, and REDIS_SERVERS=${forced} allows this way only` : '';
  throw new Error(
    `Redis is needed and was not found${forcedNote}. Make one of these work:\n${reasons.join('\n')}`,
  );
}

function forcedWay(): RedisWay | undefined {
  const value = process.env.REDIS_SERVERS;
  if (!value) return undefined;
  const way = REDIS_WAYS.find((each) => each === value);
  if (!way) throw new Error(`REDIS_SERVERS is one of ${REDIS_WAYS.join(', ')}, got ${value}`);
  return way;
}
