import { type FoundRedis, type NotFound, REDIS_WAYS, type RedisWay } from './redis-server.ts';

/** Resolves with what was found, or with the reason why the way does not work here. */
export type RedisFinder = () => Promise<FoundRedis | NotFound>;

const HINTS: Record<RedisWay, string> = {
  urls: 'name running servers: REDIS_NODES=redis://127.0.0.1:6379,redis://127.0.0.1:6380,…',
  path: 'install redis-server or valkey-server (apt-get install redis-server, brew install redis)',
  docker: 'start Docker, or another container runtime that testcontainers knows',
  package: 'on Debian or Ubuntu, let apt-get reach its package source: no root is needed',
};

/**
 * Tries the ways one after another, a forced one alone. Servers of one's own cannot come from REDIS_NODES.
 * @throws {Error} that lists the ways and why each one failed
 */
export async function searchWays(
  finders: Readonly<Record<RedisWay, RedisFinder>>,
  { forced, own = false }: { forced?: string; own?: boolean },
): Promise<FoundRedis> {
  const ways = allowedWays(forced).filter((way) => !own || way !== 'urls');
  const reasons: string[] = [];
  for (const way of ways) {
    const found = await finders[way]();
    if ('way' in found) return found;
    reasons.push(`  ${way}: ${HINTS[way]}\n    (${found.reason})`);
  }
  if (ways.length === 0) {
    throw new Error(
      'servers are needed that can be configured, frozen and killed, and REDIS_SERVERS=urls allows running ones only',
    );
  }
  const only = forced ? `, and REDIS_SERVERS=${forced} allows this way only` : '';
  throw new Error(
    `Redis is needed and was not found${only}. Make one of these work:\n${reasons.join('\n')}`,
  );
}

function allowedWays(forced: string | undefined): RedisWay[] {
  if (!forced) return [...REDIS_WAYS];
  const way = REDIS_WAYS.find((each) => each === forced);
  if (!way) throw new Error(`REDIS_SERVERS is one of ${REDIS_WAYS.join(', ')}, got ${forced}`);
  return [way];
}
