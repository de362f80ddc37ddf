import { Cluster, Command, Redis } from 'ioredis';
import type { ClusterNode, ClusterOptions, RedisOptions } from 'ioredis';
import { RedlockConfigError } from '../../core/errors.ts';
import { checkOptionNames, kindOf } from '../../core/options/option-names.ts';
import { errorMessage } from '../commands/node-failure.ts';
import { wireCommandOf } from '../commands/script-command.ts';
import type { CommandClass, WireCommandClass } from '../commands/script-command.ts';
import { clusterConnector } from './cluster-connector.ts';
import { nameFoundServers, withName } from './server-name.ts';

/** An ioredis client, possibly of another copy or version of ioredis. It is only duplicated. */
export interface RedisInstance {
  readonly options: object;
  duplicate(override?: any): unknown;
}

/** A Redis Cluster as one node: some of its servers, and the options of the connections. */
export interface ClusterNodeOptions extends RedisOptions, Pick<ClusterOptions, 'dnsLookup'> {
  /** The servers that are asked which one is the primary of the slot of the key prefix, which needs a hash tag. */
  readonly cluster: readonly Exclude<ClusterNode, string | number>[];
}

/**
 * An independent Redis server: a URL (`redis://` or `rediss://`), ioredis options (with `sentinels` and `name`: the primary of the
 * moment), a cluster, or an ioredis client. A client is duplicated, and never closed, subscribed on or reconfigured.
 */
export type RedisNodeInput = string | RedisOptions | ClusterNodeOptions | RedisInstance;

/** The proof that a server asks of a client that connects. */
export interface NodeCredentials {
  readonly username?: string;
  readonly password?: string;
  /** Added to the TLS options of the node; an empty object turns TLS on. */
  readonly tls?: RedisOptions['tls'];
}

const CREDENTIALS = ['username', 'password', 'tls'] satisfies (keyof NodeCredentials)[];

/** Returns what the next connection to a node takes. @param address the node, as messages name it */
export type CredentialsSource = (address: string) => NodeCredentials | Promise<NodeCredentials>;

export interface ConnectionSourceOptions {
  /** The name of the input in messages. @default 'nodes' */
  readonly option?: string;
  /** The prefix of all names, whose slot leads to a server of a cluster. @default that of `REDLOCK_DEFAULTS` */
  readonly keyPrefix?: string | undefined;
  /** Asked before each connection. @default the credentials in the input */
  readonly credentials?: CredentialsSource | undefined;
}

/** The time that TCP and TLS may take, and then the handshake with the server. */
export const CONNECT_TIMEOUT_MS = 5_000;

/**
 * Options that the protocol needs of a client: one connection and then no more (we reconnect ourselves), nothing queued, nothing
 * sent twice, replies of one form in all versions. Name, database, TLS and credentials stay as the user gave them.
 */
const OVERRIDES = {
  lazyConnect: true,
  enableReadyCheck: true,
  role: 'master',
  sentinelRetryStrategy: () => null,
  sentinelCommandTimeout: 1_000,
  // The detector's clients of the sentinels outlive a connection that the server ends, and print each refused connection.
  failoverDetector: false,
  enableTLSForSentinelMode: true,
  maxLoadingRetryTime: 250,
  retryStrategy: () => null,
  reconnectOnError: null,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  enableAutoPipelining: false,
  connectTimeout: CONNECT_TIMEOUT_MS,
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

/** How many passwords are remembered: each connection that is being made may have an earlier one. */
const KEPT_SECRETS = 4;

/** Makes the clients of one node, each good for one connection. */
export class ConnectionSource {
  /** The host and the port, or the path of a socket; of Sentinel and clusters those of the first server that is asked. */
  readonly address: string;
  /** The key prefix of the input, which locks don't use; empty when there is none. */
  readonly ignoredKeyPrefix: string;
  /** Commands for the copy of ioredis that the clients are of. */
  readonly WireCommand: WireCommandClass;
  /** Receives the message when its server says that it is no primary. */
  onDemoted: ((message: string) => void) | undefined;
  /** Whether a client was ready once. */
  hasConnected = false;
  /** Whether connections, and the pauses before the next one, keep this process alive. */
  holdsProcess = true;
  readonly foundBy?: 'sentinel' | 'cluster';
  readonly #template: RedisInstance;
  readonly #credentials: CredentialsSource | undefined;
  #secrets: readonly unknown[] = [];
  #creations = 0;

  /** @throws RedlockConfigError when the input is not a Redis node, or is a cluster and the key prefix has no hash tag */
  constructor(
    input: RedisNodeInput,
    { option = 'nodes', keyPrefix = '', credentials }: ConnectionSourceOptions = {},
  ) {
    this.#credentials = credentials;
    // The value is left out, because it may hold a password.
    const refused: Refusal = (shown, fix) => new RedlockConfigError(option, undefined, fix, shown);
    const cluster = clusterOf(input);
    if (cluster !== undefined && !/^[^{]*\{[^}]+\}/.test(keyPrefix)) {
      const fix = `give one with a hash tag, such as '{lock}:', so that all names lie on one server of the cluster (${option})`;
      throw new RedlockConfigError('keyPrefix', keyPrefix, fix);
    }
    this.#template =
      cluster === undefined
        ? templateOf(input, refused)
        : templateOfCluster(cluster, keyPrefix, refused);
    const options = this.#template.options as RedisOptions;
    if (cluster !== undefined) this.foundBy = 'cluster';
    else if (options.sentinels) this.foundBy = 'sentinel';
    // ioredis ends the process by its select of another one.
    if (options.db != null && !(Number.isInteger(options.db) && options.db >= 0))
      throw refused('a node with a wrong db', 'give the number of a database, from 0');
    const { Command: OwnCommand = Command } = this.#template.constructor as Partial<typeof Redis>;
    this.WireCommand = wireCommandOf(OwnCommand as unknown as CommandClass);
    this.address = addressOf(options, this.foundBy);
    this.ignoredKeyPrefix = typeof options.keyPrefix === 'string' ? options.keyPrefix : '';
  }

  get usesTls(): boolean {
    return Boolean((this.#template.options as RedisOptions).tls);
  }

  /** The name or the IP address that leads to the server; undefined where others say which server it is, or it is a socket. */
  get host(): string | undefined {
    const { host, path } = this.#template.options as RedisOptions;
    return this.foundBy === undefined && !path ? host : undefined;
  }

  /** A client that has not connected yet. @param host in place of that of the node */
  create(host = this.host): Redis {
    const { sentinels, tls } = this.#template.options as RedisOptions;
    const where = host === undefined ? {} : { host, tls: withName(tls, this.host) };
    if (!sentinels) return this.#template.duplicate({ ...OVERRIDES, ...where }) as Redis;
    // The Sentinels take turns in being asked first, because one of them may be frozen.
    const first = this.#creations++ % sentinels.length;
    const turned = [...sentinels.slice(first), ...sentinels.slice(0, first)];
    const client = this.#template.duplicate({ ...OVERRIDES, sentinels: turned }) as Redis;
    nameFoundServers(client);
    return client;
  }

  /** Gives a client what its server asks for now. Undefined: there is nothing to wait for. */
  authorize({ options }: Redis): Promise<void> | undefined {
    const failed = (error: unknown) => {
      throw new Error(`credentials() failed: ${errorMessage(error)}`);
    };
    const asked = this.#credentials && Promise.resolve(this.address).then(this.#credentials);
    return asked?.catch(failed).then((given) => {
      if (given != null) checkOptionNames('credentials()', given, CREDENTIALS, 'credentials');
      const { username = options.username, password = options.password, tls } = given ?? {};
      this.#secrets = [password, ...this.#secrets].slice(0, KEPT_SECRETS);
      if ([username, password].some((text) => text != null && typeof text !== 'string'))
        throw new Error('credentials() has to give username and password as texts');
      Object.assign(
        options,
        { username, password },
        tls && { tls: withName({ ...options.tls, ...tls }, this.host) },
      );
    });
  }

  /** The message without the password, should the server have quoted it; without line breaks, and not longer than a line or two. */
  conceal(message: string): string {
    const { password, sentinelPassword } = this.#template.options as RedisOptions;
    let hidden = message;
    for (const secret of [password, sentinelPassword, ...this.#secrets])
      if (typeof secret === 'string' && secret !== '') hidden = hidden.replaceAll(secret, '***');
    const concealed = hidden.replaceAll(/\s+/g, ' ').trim();
    return concealed.length > 500 ? `${concealed.slice(0, 500)}…` : concealed;
  }
}

type Refusal = (shown: string, fix: string) => RedlockConfigError;

const FORMS = 'each is a URL (redis://host:port), ioredis options, or an ioredis client';

function templateOf(input: RedisNodeInput, refused: Refusal): RedisInstance {
  if (typeof input === 'string') return templateOfOptions(optionsOf(input, refused), refused);
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw refused(kindOf(input), FORMS);
  if (!('duplicate' in input) || typeof input.duplicate !== 'function')
    return templateOfOptions({ ...(input as RedisOptions) }, refused);
  const inTests = 'in tests without Redis use createMemoryNodes of nestjs-fenced-lock/testing';
  if (!('connector' in input)) throw refused('a client not of ioredis, such as a mock', inTests);
  checkServer(input.options, refused);
  return input;
}

function templateOfOptions(options: RedisOptions, refused: Refusal): RedisInstance {
  checkServer(options, refused);
  return new Redis({ ...options, ...OVERRIDES, keyPrefix: options.keyPrefix });
}

function clusterOf(input: RedisNodeInput): Cluster | undefined {
  if (typeof input !== 'object' || input === null) return undefined;
  if ('isCluster' in input && input.isCluster === true) return input as unknown as Cluster;
  const { cluster, ...options } = input as ClusterNodeOptions;
  if (!Array.isArray(cluster)) return undefined;
  return new Cluster([...cluster], { ...options, redisOptions: options, lazyConnect: true });
}

/** The first server of the cluster stands for all in messages. */
function templateOfCluster(cluster: Cluster, keyPrefix: string, refused: Refusal): RedisInstance {
  const { redisOptions = {}, keyPrefix: ignored = redisOptions.keyPrefix } = cluster.options;
  const [first] = (cluster as unknown as { readonly startupNodes: readonly ClusterNode[] })
    .startupNodes;
  const { host, port } = typeof first === 'string' ? optionsOf(first, refused) : Object(first);
  checkServer({ host: host ?? 'localhost' }, refused);
  const Connector = clusterConnector(cluster, keyPrefix);
  const options = { ...redisOptions, ...OVERRIDES, keyPrefix: ignored, host, port, Connector };
  return new Redis({ ...options, path: undefined } as RedisOptions);
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

function addressOf(options: RedisOptions, foundBy?: ConnectionSource['foundBy']): string {
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
