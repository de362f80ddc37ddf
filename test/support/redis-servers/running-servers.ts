import type { RedisServer, RedisServerOptions } from './redis-server.ts';
import { type RequestTarget, ping } from './resp-request.ts';

/** REDIS_NODES: servers which already run. A list that does not answer is an error, not a reason to look elsewhere. */
export async function findUrls(): Promise<string[]> {
  const all = (process.env.REDIS_NODES ?? '').split(',').map((url) => url.trim());
  const urls = all.filter((url) => url !== '');
  for (const url of urls)
    await ping(targetOf(url)).catch((cause: unknown) => {
      throw new Error(`REDIS_NODES names ${withoutPassword(url)}, which does not serve`, { cause });
    });
  return urls;
}

function targetOf(text: string): RequestTarget {
  const url = new URL(text);
  const password = decodeURIComponent(url.password);
  const name = decodeURIComponent(url.username) || 'default';
  return {
    address: { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 6379) },
    tls: url.protocol === 'rediss:',
    user: password ? { name, password } : undefined,
  };
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^@]*@/, '//');
}

/** The first `count` of the running servers. They are shared, are never emptied, and take no options. */
export function urlServers(
  urls: readonly string[],
  count: number,
  options: RedisServerOptions,
): RedisServer[] {
  if (urls.length < count)
    throw new Error(`${count} servers are needed and REDIS_NODES names ${urls.length}`);
  if (Object.keys(options).length > 0)
    throw new Error('servers named in REDIS_NODES already run and take no options');
  return urls.slice(0, count).map((url) => {
    const refuse = () =>
      Promise.reject(
        new Error(`${withoutPassword(url)} was not started here but named in REDIS_NODES`),
      );
    const address = targetOf(url).address as { host: string; port: number };
    return {
      url,
      ...address,
      pid: undefined,
      isRunning: true,
      canFault: false,
      freeze: refuse,
      resume: refuse,
      kill: refuse,
      restart: refuse,
      moveClock: refuse,
      stop: () => Promise.resolve(),
    };
  });
}
