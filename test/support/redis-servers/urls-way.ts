import type { FoundRedis, NotFound, RedisServer, RedisServerOptions } from './redis-server.ts';
import { type RequestTarget, ping, respRequest } from './resp-request.ts';

/** REDIS_NODES: servers which already run. A list that does not answer is an error, not a reason to look elsewhere. */
export async function findUrls(): Promise<FoundRedis | NotFound> {
  const urls = (process.env.REDIS_NODES ?? '')
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
  if (urls.length === 0) return { reason: 'REDIS_NODES is not set' };
  const versions = await Promise.all(urls.map(versionAt));
  return { way: 'urls', urls, version: [...new Set(versions)].join(', ') };
}

async function versionAt(url: string): Promise<string> {
  try {
    const target = targetOf(url);
    await ping(target);
    const information = await respRequest(target, ['INFO', 'server']).catch(() => '');
    return /^(?:valkey|redis)_version:(\S+)/m.exec(information)?.[1] ?? 'of unknown version';
  } catch (error) {
    throw new Error(`REDIS_NODES names ${withoutPassword(url)}, which does not serve`, {
      cause: error,
    });
  }
}

function targetOf(text: string): RequestTarget {
  const url = new URL(text);
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') {
    throw new Error(`expected redis:// or rediss://, got ${url.protocol}//`);
  }
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
  if (urls.length < count) {
    throw new Error(`${count} servers are needed and REDIS_NODES names ${urls.length}`);
  }
  const unusable = Object.keys(options);
  if (unusable.length > 0) {
    throw new Error(
      `servers named in REDIS_NODES already run and cannot be started with ${unusable.join(', ')}`,
    );
  }
  return urls.slice(0, count).map((url) => new UrlServer(url));
}

class UrlServer implements RedisServer {
  readonly pid = undefined;
  readonly canFault = false;
  readonly isRunning = true;
  readonly host: string;
  readonly port: number;

  constructor(readonly url: string) {
    ({ host: this.host, port: this.port } = targetOf(url).address as {
      host: string;
      port: number;
    });
  }

  readonly freeze = () => this.#refuse('freeze');
  readonly resume = () => this.#refuse('resume');
  readonly kill = () => this.#refuse('kill');
  readonly restart = () => this.#refuse('restart');
  readonly moveClock = () => this.#refuse('move the clock of');

  /** Leaves the server alone: it was not started here. */
  stop(): Promise<void> {
    return Promise.resolve();
  }

  #refuse(what: string): Promise<never> {
    const why = 'was not started here but named in REDIS_NODES, so its process is out of reach';
    return Promise.reject(new Error(`cannot ${what} ${withoutPassword(this.url)}: it ${why}`));
  }
}
