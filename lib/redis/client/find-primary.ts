import { Command } from 'ioredis';
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { errorMessage } from '../commands/node-failure.ts';
import type { RedisInstance } from './client-source.ts';
import { connectorFor, withName, type FindServer } from './server-socket.ts';

/** How long one server may take to say where the primary is. */
const LOOKUP_TIMEOUT_MS = 1_000;

/** The options of each connection of a lookup. */
const ONE_CONNECTION = {
  connectTimeout: LOOKUP_TIMEOUT_MS,
  disconnectTimeout: 50,
  keyPrefix: '',
  Connector: connectorFor(async (options) => options),
} satisfies RedisOptions;

/** The options of a client that asks one Sentinel once. */
const ONE_QUESTION = {
  ...ONE_CONNECTION,
  lazyConnect: true,
  enableReadyCheck: false,
  retryStrategy: () => null,
  protocol: 2,
  replyMapping: 'legacy',
  commandTimeout: LOOKUP_TIMEOUT_MS,
  sentinels: undefined,
  path: undefined,
  db: 0,
} satisfies RedisOptions;

/** Finds the primary of the moment by its Sentinels. They take turns in being asked first, because one of them may be frozen. */
export function findBySentinels(template: RedisInstance): FindServer {
  let searches = 0;
  return async (options, signal) => {
    const { sentinels = [], name, natMap, sentinelTLS } = template.options as RedisOptions;
    const { sentinelUsername, sentinelPassword } = template.options as RedisOptions;
    const first = searches++ % sentinels.length;
    let problem = '';
    for (const { host, port = 26379, family } of [
      ...sentinels.slice(first),
      ...sentinels.slice(0, first),
    ]) {
      if (signal.aborted) break;
      const tls = withName(sentinelTLS, host);
      const own = { host, port, family, tls, username: sentinelUsername };
      const client = template.duplicate({
        ...ONE_QUESTION,
        ...own,
        password: sentinelPassword,
      }) as Redis;
      const found = await ask(client, signal, (each) =>
        each.call('sentinel', ['get-master-addr-by-name', name!]),
      );
      const [ip, itsPort] = Array.isArray(found) ? (found as string[]) : [];
      if (ip !== undefined) {
        const address = `${ip}:${itsPort}`;
        const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
        const place = mapped ?? { host: ip, port: Number(itsPort) };
        return { ...place, family: options.family, tls: withName(options.tls, place.host) };
      }
      problem =
        found instanceof Error
          ? `failed to connect to sentinel ${host}:${port} because ${errorMessage(found)}`
          : `connected to sentinel ${host}:${port}, but it knows no master of the name ${name}`;
    }
    throw new Error(problem);
  };
}

/** Resolves to the answer, or to the error. */
async function ask<Client extends Redis | Cluster>(
  client: Client,
  signal: AbortSignal,
  question: (client: Client) => Promise<unknown>,
): Promise<unknown> {
  const end = () => client.disconnect();
  let cause: unknown;
  const failed = (error: Error & { readonly lastNodeError?: Error }) => {
    cause ??= error.lastNodeError ?? error;
  };
  client.on('error', failed);
  signal.addEventListener('abort', end);
  try {
    await client.connect();
    return await question(client);
  } catch (error) {
    return cause ?? error;
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

/** The options of a client of a cluster that looks once: no other try, no other command. */
const ONE_LOOK: ClusterOptions = {
  lazyConnect: true,
  clusterRetryStrategy: () => null,
  enableReadyCheck: false,
  slotsRefreshTimeout: LOOKUP_TIMEOUT_MS,
  slotsRefreshInterval: 0,
  keyPrefix: '',
  scripts: {},
};

/**
 * Finds the server that is the primary of the slot of `keyPrefix`, as a client of the cluster sees it that is made for this look.
 *
 * @param cluster only duplicated
 */
export function findInCluster(cluster: Cluster, keyPrefix: string): FindServer {
  const slot = new Command('get', [keyPrefix]).getSlot();
  return async ({ username, password, tls, family }, signal) => {
    const given = { ...cluster.options.redisOptions, username, password, tls };
    const redisOptions: RedisOptions = { ...given, ...ONE_CONNECTION };
    const lookup = cluster.duplicate([], { ...ONE_LOOK, redisOptions });
    const found = await ask(lookup, signal, async ({ slots }) => {
      const name = slots[slot]?.[0];
      const isIt = ({ options }: Redis) => `${options.host}:${options.port}` === name;
      return lookup.nodes('master').find(isIt)?.options;
    });
    if (found instanceof Error)
      throw new Error(`no server of the cluster answered: ${errorMessage(found)}`);
    if (found === undefined)
      throw new Error(`no server of the cluster has slot ${slot}, that of ${keyPrefix}`);
    const { host, port } = found as RedisOptions;
    return { host, port, family, tls: withName(tls, host) };
  };
}
