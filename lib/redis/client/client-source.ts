import { Redis } from 'ioredis';
import type { Cluster, ClusterNode, RedisOptions } from 'ioredis';
import { RedlockConfigError } from '../../core/errors.ts';
import { kindOf } from '../../core/options/option-names.ts';
import {
  askForCredentials,
  concealed,
  KEPT_SECRETS,
  type CredentialsSource,
} from '../credentials.ts';
import type { WireListener, WireSource } from '../wire.ts';
import { ClientWire } from './client-wire.ts';
import { findBySentinels, findInCluster } from './find-primary.ts';
import { connectorFor, withName, type FindServer, type ServerSocket } from './server-socket.ts';

/** A client of ioredis or node-redis, possibly of another copy or version. It is only duplicated. */
export interface RedisInstance {
  readonly options: object;
  duplicate(override?: any): unknown;
}

/** A Redis Cluster as one node: some of its servers, and the options of the connections. */
export interface ClusterNodeOptions extends RedisOptions {
  /** The servers that are asked which one is the primary of the slot of the key prefix, which needs a hash tag. */
  readonly cluster: readonly Exclude<ClusterNode, string | number>[];
}

/**
 * An independent Redis server: a URL (`redis://` or `rediss://`), ioredis options (with `sentinels` and `name`: the primary of the
 * moment), a cluster, or a client of ioredis or node-redis. A client is duplicated, and never closed, subscribed on or reconfigured.
 */
export type RedisNodeInput = string | RedisOptions | ClusterNodeOptions | RedisInstance;

export interface ClientSourceOptions {
  /** The name of the input in messages. @default 'nodes' */
  readonly option?: string;
  /** The prefix of all names, whose slot leads to a server of a cluster. @default that of `REDLOCK_DEFAULTS` */
  readonly keyPrefix?: string | undefined;
  /** Asked before each connection. @default the credentials in the input */
  readonly credentials?: CredentialsSource | undefined;
}

/**
 * Options that the protocol needs of a client: one connection and then no more (we reconnect ourselves), nothing queued, nothing
 * sent twice, replies of one form in all versions. Name, database, TLS and credentials stay as the user gave them.
 */
const OVERRIDES = {
  lazyConnect: true,
  enableReadyCheck: true,
  role: 'master',
  maxLoadingRetryTime: 250,
  retryStrategy: () => null,
  reconnectOnError: null,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  enableAutoPipelining: false,
  connectTimeout: 5_000,
  disconnectTimeout: 50,
  commandTimeout: undefined,
  socketTimeout: undefined,
  noDelay: true,
  // Networks forget connections that are idle for minutes; the system asks after two hours.
  keepAlive: 10_000,
  keyPrefix: '',
  stringNumbers: false,
  protocol: 2,
  replyMapping: 'legacy',
  disableClientInfo: true,
  showFriendlyErrorStack: false,
  monitor: false,
  readOnly: false,
  scripts: undefined,
  himportFieldsets: undefined,
} as const;

/** Makes the clients of one node, each good for one connection. */
export class ClientSource implements WireSource {
  readonly address: string;
  readonly ignoredKeyPrefix: string;
  readonly foundBy?: 'sentinel' | 'cluster';
  /** A client was ready once. */
  hasConnected = false;
  readonly #find: FindServer;
  readonly #template: RedisInstance;
  readonly #credentials: CredentialsSource | undefined;
  #secrets: readonly unknown[] = [];

  /** @throws RedlockConfigError when the input is not a Redis node, or is a cluster and the key prefix has no hash tag */
  constructor(
    input: RedisNodeInput,
    { option = 'nodes', keyPrefix = '', credentials }: ClientSourceOptions = {},
  ) {
    this.#credentials = credentials;
    // The value is left out, because it may hold a password.
    const refused: Refusal = (shown, fix) => new RedlockConfigError(option, undefined, fix, shown);
    const cluster = clusterOf(input, refused);
    if (cluster !== undefined && !/^[^{]*\{[^}]+\}/.test(keyPrefix)) {
      const fix = `give one with a hash tag, such as '{lock}:', so that all names lie on one server of the cluster (${option})`;
      throw new RedlockConfigError('keyPrefix', keyPrefix, fix);
    }
    this.#template =
      cluster === undefined
        ? templateOf(input, refused)
        : templateOfOptions(cluster.options, refused);
    const options = this.#template.options as RedisOptions;
    if (cluster !== undefined) this.foundBy = 'cluster';
    else if (options.sentinels) this.foundBy = 'sentinel';
    // ioredis ends the process by its select of another one.
    if (options.db != null && !(Number.isInteger(options.db) && options.db >= 0))
      throw refused('a node with a wrong db', 'give the number of a database, from 0');
    this.address = addressOf(options, this.foundBy);
    this.ignoredKeyPrefix = typeof options.keyPrefix === 'string' ? options.keyPrefix : '';
    this.#find =
      cluster !== undefined
        ? findInCluster(this.#template, cluster.servers, keyPrefix)
        : this.foundBy === 'sentinel'
          ? findBySentinels(this.#template)
          : async (given) => ({ ...given, tls: withName(given.tls, this.host) });
    // A mock makes no socket.
    if (this.create().socket === undefined) throw refused(...NO_CLIENT);
  }

  get usesTls(): boolean {
    return Boolean((this.#template.options as RedisOptions).tls);
  }

  get host(): string | undefined {
    const { host, path } = this.#template.options as RedisOptions;
    return this.foundBy === undefined && !path ? host : undefined;
  }

  connect(listener: WireListener, host?: string): ClientWire {
    return new ClientWire(this, listener, host);
  }

  /** A client that has not connected yet, good for one connection, and its socket. @param host in place of that of the node */
  create(host = this.host): { readonly client: Redis; readonly socket: ServerSocket | undefined } {
    const [find, isFound] = [this.#find, this.foundBy !== undefined];
    const sockets: ServerSocket[] = [];
    const Connector = connectorFor(find, isFound, (socket) => sockets.push(socket));
    const where = host === undefined ? {} : { host };
    const override = { ...OVERRIDES, ...where, sentinels: undefined, Connector };
    const client = this.#template.duplicate(override) as Redis;
    return { client, socket: sockets[0] };
  }

  /** Gives a client what its server asks for now. Undefined: there is nothing to wait for. */
  authorize({ options }: Redis): Promise<void> | undefined {
    const asked = this.#credentials && askForCredentials(this.#credentials, this.address);
    return asked?.then(({ username = options.username, password = options.password, tls }) => {
      this.#secrets = [password, ...this.#secrets].slice(0, KEPT_SECRETS);
      Object.assign(
        options,
        { username, password },
        tls && { tls: withName({ ...options.tls, ...tls }, this.host) },
      );
    });
  }

  conceal(message: string): string {
    const { password, sentinelPassword } = this.#template.options as RedisOptions;
    return concealed(message, [password, sentinelPassword, ...this.#secrets]);
  }
}

type Refusal = (shown: string, fix: string) => RedlockConfigError;

const NO_CLIENT = [
  'a client not of ioredis, such as a mock',
  'in tests without Redis use createMemoryNodes of nestjs-fenced-lock/testing',
] as const;
const NO_CONNECTOR =
  'locks would be on the server of its host and port: give these, or a tunnel on an address';
const FORMS =
  'each is a URL (redis://host:port), ioredis options, or a client of ioredis, or of node-redis 5 or newer';

function templateOf(input: RedisNodeInput, refused: Refusal): RedisInstance {
  if (typeof input === 'string') return templateOfOptions(optionsOf(input, refused), refused);
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw refused(kindOf(input), FORMS);
  if (!('duplicate' in input) || typeof input.duplicate !== 'function')
    return templateOfOptions({ ...(input as RedisOptions) }, refused);
  if (!('options' in input)) throw refused(...NO_CLIENT);
  const { Connector } = input.options as RedisOptions;
  if (Connector !== undefined) throw refused('a client with a Connector of its own', NO_CONNECTOR);
  checkServer(input.options as RedisOptions, refused);
  return input as RedisInstance;
}

function templateOfOptions(options: RedisOptions, refused: Refusal): RedisInstance {
  checkServer(options, refused);
  return new Redis({ ...options, ...OVERRIDES, keyPrefix: options.keyPrefix });
}

/** Some servers of a cluster, and the options of a connection to it. The first server stands for all in messages. */
function clusterOf(input: RedisNodeInput, refused: Refusal) {
  if (typeof input !== 'object' || input === null) return undefined;
  const isClient = 'isCluster' in input && input.isCluster === true;
  const { cluster, ...given } = isClient
    ? optionsOfClient(input as unknown as Cluster)
    : (input as ClusterNodeOptions);
  if (!Array.isArray(cluster)) return undefined;
  const servers = cluster.map((node: ClusterNode): RedisOptions => {
    const options = typeof node === 'number' ? { port: node } : node;
    const own = typeof options === 'string' ? optionsOf(options, refused) : options;
    return { port: 6379, ...own, host: own.host ?? 'localhost' };
  });
  for (const server of servers) checkServer(server, refused);
  const { host, port, username, password } = servers[0] ?? {};
  return { servers, options: { username, password, ...given, host, port, path: undefined } };
}

function optionsOfClient(client: Cluster) {
  const { redisOptions = {}, keyPrefix = redisOptions.keyPrefix, natMap } = client.options;
  const { startupNodes } = client as unknown as { readonly startupNodes: readonly ClusterNode[] };
  return { ...redisOptions, keyPrefix, natMap, cluster: startupNodes };
}

/** Messages show host and path, so neither may be a URL with a password. Without both, ioredis would connect to localhost. */
function checkServer(options: RedisOptions, refused: Refusal): void {
  const { host, path, sentinels, name } = options as Readonly<Record<string, unknown>>;
  if (sentinels != null) {
    if (!Array.isArray(sentinels) || sentinels.length === 0 || typeof name !== 'string' || !name)
      throw refused('sentinels', "give { sentinels: [{ host, port }], name: 'mymaster' }");
    for (const each of sentinels) checkServer({ host: Object(each).host ?? 'localhost' }, refused);
    return;
  }
  if (!host && !path) throw refused('an object without a host', FORMS);
  if (host && (typeof host !== 'string' || /[/@\s]/.test(host)))
    throw refused('a node with a wrong host', `give a name or an IP address; ${FORMS}`);
  if (path && (typeof path !== 'string' || /:.*[/@]/.test(path)))
    throw refused('a node with a wrong path', `give the path of a socket; ${FORMS}`);
}

/** What variables of the environment that are missing, or misspelt, make of a URL. */
const FAULTS: readonly (readonly [shown: string, RegExp])[] = [
  ['an empty URL', /^$/],
  ['a URL without two slashes', /^rediss?:(?!\/\/|\d)/i],
  ['a URL without a host', /^rediss?:\/\/([^/?#]*@)?(:\d*)?([/?#]|$)/i],
];

function optionsOf(given: string, refused: Refusal): RedisOptions {
  const text = given.trim();
  const fault = FAULTS.find(([, form]) => form.test(text));
  // The first argument has precedence, so that no query makes it connect.
  const parsed = (url: string) => new Redis({ lazyConnect: true } as never, url).options;
  if (/^\/[^/]/.test(text)) return parsed(text);
  try {
    const url = new URL(text.includes('://') ? text : `redis://${text}`);
    const isRedis = /^rediss?:$/.test(url.protocol) && url.hostname !== '' && !fault;
    // An '@' behind the host ends a password that is not encoded, whose beginning was taken for the host.
    if (isRedis && !/[@#]/.test(url.pathname + url.search + url.hash)) return parsed(url.href);
  } catch {
    // Messages of URL may quote the password.
  }
  throw refused(
    fault?.[0] ?? 'this URL',
    'give redis://user:password@host:port/db (or rediss://) of one server, with special characters percent-encoded, or the path of a socket',
  );
}

function addressOf(options: RedisOptions, foundBy?: ClientSource['foundBy']): string {
  const { sentinels, name } = options;
  if (foundBy === 'sentinel') {
    // The address is the same in all processes, in whatever order they name the Sentinels.
    const addresses = sentinels!.map((each) => addressOf({ port: 26379, ...each } as RedisOptions));
    return `${name} at ${addresses.sort()[0]}`;
  }
  if (foundBy === 'cluster') return `cluster at ${addressOf(options)}`;
  if (typeof options.path === 'string' && options.path !== '') return options.path;
  const host = options.host ?? 'localhost';
  return `${host.includes(':') ? `[${host}]` : host}:${options.port ?? 6379}`;
}
