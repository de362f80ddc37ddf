import { DockerServer } from './docker-server.ts';
import { LocalServer } from './local-server.ts';
import type { FoundRedis, RedisProvider, RedisServer, RedisServerOptions } from './redis-server.ts';
import { urlServers } from './urls-way.ts';

/** Makes a provider of the way that was found. */
export function providerOf(found: FoundRedis): RedisProvider {
  return {
    way: found.way,
    version: found.version,
    description: describe(found),
    canFault: found.way !== 'urls',
    start: async (count, options = {}) => {
      if (found.way === 'urls') return urlServers(found.urls, count, options);
      return startAll(count, () => startOne(found, options));
    },
  };
}

function startOne(
  found: Exclude<FoundRedis, { way: 'urls' }>,
  options: RedisServerOptions,
): Promise<RedisServer> {
  if (found.way === 'docker') return DockerServer.start(found.image, options);
  return LocalServer.start(found, options);
}

/** Starts all or none: when one does not start, the others are stopped before the error is thrown. */
async function startAll(count: number, start: () => Promise<RedisServer>): Promise<RedisServer[]> {
  const outcomes = await Promise.allSettled(Array.from({ length: count }, start));
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  const servers = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  );
  if (!failed) return servers;
  await Promise.allSettled(servers.map((server) => server.stop()));
  throw failed.reason;
}

function describe(found: FoundRedis): string {
  switch (found.way) {
    case 'urls':
      return `Redis ${found.version}, ${found.urls.length} running servers of REDIS_NODES`;
    case 'docker':
      return `Redis in containers of ${found.image}`;
    case 'path':
      return `Redis ${found.version}, ${found.command} on PATH`;
    case 'package':
      return `Redis ${found.version} of the Debian package in ${found.command}`;
  }
}
