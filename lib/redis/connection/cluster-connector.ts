import { AbstractConnector, Command, Redis } from 'ioredis';
import type { Cluster, ClusterOptions, RedisOptions } from 'ioredis';
import { errorMessage } from '../commands/node-failure.ts';
import { withName } from './server-name.ts';

/** How long one server of the cluster may take to say which servers have which slots. */
const LOOKUP_TIMEOUT_MS = 1_000;

/** The options of a client that looks once: no other try, no other command. */
const OVERRIDES: ClusterOptions = {
  lazyConnect: true,
  clusterRetryStrategy: () => null,
  enableReadyCheck: false,
  slotsRefreshTimeout: LOOKUP_TIMEOUT_MS,
  slotsRefreshInterval: 0,
  keyPrefix: '',
  scripts: {},
};

type ConnectorClass = new (options: RedisOptions) => AbstractConnector;

/**
 * The option `Connector` of ioredis: each connection leads to the server that is the primary of the slot of `keyPrefix`, as a
 * client of the cluster sees it that is made for this look.
 *
 * @param cluster only duplicated
 */
export function clusterConnector(cluster: Cluster, keyPrefix: string): ConnectorClass {
  const slot = new Command('get', [keyPrefix]).getSlot();
  return class ClusterConnector extends AbstractConnector {
    readonly #options: RedisOptions;
    #lookup: Cluster | undefined;

    constructor(options: RedisOptions) {
      super(options.disconnectTimeout!);
      this.#options = options;
    }

    async connect(onError: (type: string, error: Error) => void) {
      this.connecting = true;
      const { host, port } = await this.#findPrimary();
      const tls = withName(this.#options.tls, host);
      const primary = { host, port, tls, path: undefined, lazyConnect: true };
      const client = new Redis({ ...this.#options, ...primary, Connector: undefined } as object);
      const { connector } = client as unknown as { readonly connector: AbstractConnector };
      const stream = await connector.connect(onError);
      this.stream = stream;
      if (!this.connecting) stream.destroy();
      return stream;
    }

    override disconnect(): void {
      this.#lookup?.disconnect();
      super.disconnect();
    }

    async #findPrimary() {
      const { username, password, tls } = this.#options;
      const given = { ...cluster.options.redisOptions, username, password, tls, keyPrefix: '' };
      const redisOptions = { ...given, connectTimeout: LOOKUP_TIMEOUT_MS } as RedisOptions;
      const lookup = cluster.duplicate([], { ...OVERRIDES, redisOptions });
      this.#lookup = lookup;
      let cause: unknown;
      lookup.on('error', (error) => (cause = (error as { lastNodeError?: Error }).lastNodeError));
      try {
        await lookup.connect();
        const name = lookup.slots[slot]?.[0];
        const isIt = ({ options }: Redis) => `${options.host}:${options.port}` === name;
        const primary = lookup.nodes('master').find(isIt);
        if (primary) return { host: primary.options.host, port: primary.options.port };
      } catch (error) {
        throw new Error(`no server of the cluster answered: ${errorMessage(cause ?? error)}`);
      } finally {
        lookup.disconnect();
      }
      throw new Error(`no server of the cluster has slot ${slot}, that of ${keyPrefix}`);
    }
  };
}
