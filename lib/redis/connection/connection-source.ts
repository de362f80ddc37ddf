import { Command, Redis } from 'ioredis';
import type { RedisOptions } from 'ioredis';
import { RedlockConfigError } from '../../core/errors.ts';
import { kindOf } from '../../core/options/option-names.ts';
import { wireCommandOf } from '../commands/script-command.ts';
import type { CommandClass, WireCommandClass } from '../commands/script-command.ts';

/** An ioredis client, possibly of another copy or version of ioredis. It is only duplicated. */
export interface RedisInstance {
  readonly options: object;
  duplicate(override?: any): unknown;
}

/**
 * Independent Redis server: a URL (`redis://` or `rediss://`), ioredis options, or an ioredis client. A client is
 * duplicated, and never closed, subscribed on or reconfigured.
 */
export type RedisNodeInput = string | RedisOptions | RedisInstance;

/** Time that TCP and TLS may take, and then the handshake with the server. */
export const CONNECT_TIMEOUT_MS = 5_000;

/**
 * Options that the protocol needs of a client: one connection and then no more (we reconnect ourselves), nothing queued, nothing
 * sent twice, replies of one form in all versions. Name, database, TLS and credentials stay as the user gave them.
 */
const OVERRIDES = {
  lazyConnect: true,
  enableReadyCheck: true,
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

/** Makes the clients of one node, each good for one connection. */
export class ConnectionSource {
  /** Host and port, or the path of a socket. */
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
  readonly #template: RedisInstance;

  /**
   * @param option the name of the input in messages
   * @throws RedlockConfigError when the input is not a Redis node, or is a Cluster or Sentinel client
   */
  constructor(input: RedisNodeInput, option = 'nodes') {
    // Value is left out, because it may hold a password.
    const refused: Refusal = (shown, fix) => new RedlockConfigError(option, undefined, fix, shown);
    this.#template = templateOf(input, refused);
    const options = this.#template.options as RedisOptions;
    // ioredis ends the process by its select of another one.
    if (options.db != null && !(Number.isInteger(options.db) && options.db >= 0))
      throw refused('a node with a wrong db', 'give the number of a database, from 0');
    const { Command: OwnCommand = Command } = this.#template.constructor as Partial<typeof Redis>;
    this.WireCommand = wireCommandOf(OwnCommand as unknown as CommandClass);
    this.address = addressOf(options);
    this.ignoredKeyPrefix = typeof options.keyPrefix === 'string' ? options.keyPrefix : '';
  }

  get usesTls(): boolean {
    return Boolean((this.#template.options as RedisOptions).tls);
  }

  /** A client that has not connected yet. */
  create(): Redis {
    return this.#template.duplicate(OVERRIDES) as Redis;
  }

  /** The message without the password, should the server have quoted it; without line breaks, and not longer than a line or two. */
  conceal(message: string): string {
    const { password } = this.#template.options as RedisOptions;
    const hidden =
      typeof password === 'string' && password !== ''
        ? message.replaceAll(password, '***')
        : message;
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
  if ('isCluster' in input && input.isCluster === true)
    throw refused('a cluster client', 'give independent masters; a lock node cannot be a cluster');
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

/** Messages show host and path, so neither may be a URL with a password. Without both, ioredis would connect to localhost. */
function checkServer(options: RedisOptions, refused: Refusal): void {
  const { host, path, sentinels } = options as Readonly<Record<string, unknown>>;
  const fix = 'list independent masters: a failover leads to a replica, which forgets locks';
  if (sentinels != null) throw refused('sentinels', fix);
  if (!host && !path) throw refused('an object without a host', FORMS);
  if (host && (typeof host !== 'string' || /[/@\s]/.test(host)))
    throw refused('a node with a wrong host', `give a name or an IP address; ${FORMS}`);
  if (path && (typeof path !== 'string' || /:.*[/@]/.test(path)))
    throw refused('a node with a wrong path', `give the path of a socket; ${FORMS}`);
}

function optionsOf(text: string, refused: Refusal): RedisOptions {
  // The first argument has precedence, so that no query makes it connect.
  const parsed = (url: string) => new Redis({ lazyConnect: true } as never, url).options;
  if (/^\/[^/]/.test(text)) return parsed(text);
  try {
    const url = new URL(text.includes('://') ? text : `redis://${text}`);
    const isRedis = /^rediss?:$/.test(url.protocol) && url.hostname !== '';
    // An '@' behind the host ends a password that is not encoded, whose beginning was taken for the host.
    if (isRedis && !/[@#]/.test(url.pathname + url.search + url.hash)) return parsed(url.href);
  } catch {
    // Messages of URL may quote the password.
  }
  throw refused(
    'this URL',
    'give redis://user:password@host:port/db (or rediss://) of one server, with special characters percent-encoded, or the path of a socket',
  );
}

function addressOf(options: RedisOptions): string {
  if (typeof options.path === 'string' && options.path !== '') return options.path;
  const host = options.host ?? 'localhost';
  return `${host.includes(':') ? `[${host}]` : host}:${options.port ?? 6379}`;
}
