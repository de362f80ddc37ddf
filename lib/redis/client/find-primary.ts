import { Command } from 'ioredis';
import type { Redis, RedisOptions } from 'ioredis';
import { errorMessage } from '../commands/node-failure.ts';
import type { RedisInstance } from './client-source.ts';
import { connectorFor, withName, type FindServer, type Place } from './server-socket.ts';

/** How long one server may take to say where the primary is. */
const LOOKUP_TIMEOUT_MS = 1_000;

/** The options of a client that asks one server once. */
const ONE_QUESTION = {
  lazyConnect: true,
  enableReadyCheck: false,
  retryStrategy: () => null,
  connectTimeout: LOOKUP_TIMEOUT_MS,
  disconnectTimeout: 50,
  commandTimeout: LOOKUP_TIMEOUT_MS,
  protocol: 2,
  replyMapping: 'legacy',
  keyPrefix: '',
  Connector: connectorFor(async (options) => options),
  sentinels: undefined,
  path: undefined,
  db: 0,
} satisfies RedisOptions;

/** Servers that may know where the primary is, and what they are asked. */
interface Lookup {
  readonly servers: readonly Place[];
  readonly question: readonly [command: string, ...words: string[]];
  /** What they ask of a client. @default what the primary does */
  readonly access?: Pick<RedisOptions, 'tls' | 'username' | 'password'>;
  /** Finds the host and the port in the answer of the server that was asked, which may be anything. */
  readonly read: (answer: unknown, asked: Place) => readonly unknown[];
  /** What one of them does not know. */
  readonly unknown: string;
}

/** Finds the primary of the moment by its Sentinels. */
export function findBySentinels(template: RedisInstance): FindServer {
  const { sentinels = [], name, ...options } = template.options as RedisOptions;
  const { sentinelTLS: tls, sentinelUsername: username, sentinelPassword: password } = options;
  return findByAsking(template, {
    servers: sentinels.map(({ host, port = 26379, family }) => ({ host, port, family })),
    question: ['sentinel', 'get-master-addr-by-name', name!],
    access: { tls, username, password },
    read: listOf,
    unknown: `the primary of the name ${name}`,
  });
}

/** Finds the server of a cluster that is the primary of the slot of `keyPrefix`. @param servers some of the cluster */
export function findInCluster(
  template: RedisInstance,
  servers: readonly Place[],
  keyPrefix: string,
): FindServer {
  const slot = new Command('get', [keyPrefix]).getSlot();
  return findByAsking(template, {
    servers: servers.map(({ host, port }) => ({ host, port })),
    question: ['cluster', 'slots'],
    read: (answer, asked) => {
      const ranges = listOf(answer).map(listOf);
      const range = ranges.find(([first, last]) => Number(first) <= slot && slot <= Number(last));
      // The host is left out where it is the one that was asked: a server that has met no other one knows only its port.
      const [host, port] = listOf(range?.[2]);
      return Number(port) > 0 ? [host || asked.host, port] : [];
    },
    unknown: `the primary of slot ${slot}, that of ${keyPrefix}`,
  });
}

function listOf(answer: unknown): readonly unknown[] {
  return Array.isArray(answer) ? answer : [];
}

/** Asks the servers until one knows. They take turns in being asked first, because one of them may be frozen. */
function findByAsking(template: RedisInstance, lookup: Lookup): FindServer {
  const { servers, question, access, read, unknown } = lookup;
  const { natMap } = template.options as RedisOptions;
  let searches = 0;
  return async (options, signal) => {
    const first = searches++ % servers.length;
    let problem = '';
    for (const server of [...servers.slice(first), ...servers.slice(0, first)]) {
      if (signal.aborted) break;
      const { tls, username, password } = access ?? options;
      const own = { ...server, tls: withName(tls, server.host), username, password };
      const client = template.duplicate({ ...ONE_QUESTION, ...own }) as Redis;
      const answer = await ask(client, signal, question);
      const [host, port] = read(answer, server);
      if (typeof host === 'string' && host !== '') {
        const address = `${host}:${port as number}`;
        const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
        const place = mapped ?? { host, port: Number(port) };
        return { ...place, family: options.family, tls: withName(options.tls, place.host) };
      }
      const why = answer instanceof Error ? errorMessage(answer) : `does not know ${unknown}`;
      problem = `${server.host}:${server.port}, which was asked for the primary: ${why}`;
    }
    throw new Error(problem);
  };
}

/** Resolves to the answer, or to the error. */
async function ask(
  client: Redis,
  signal: AbortSignal,
  [command, ...words]: Lookup['question'],
): Promise<unknown> {
  const end = () => client.disconnect();
  let cause: unknown;
  client.on('error', (error: unknown) => (cause ??= error));
  signal.addEventListener('abort', end);
  try {
    await client.connect();
    return await client.call(command, words);
  } catch (error) {
    return cause ?? error;
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}
