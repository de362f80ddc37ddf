import { Redis } from 'ioredis';
import type { RedisOptions } from 'ioredis';
import { RedlockConfigError } from '../../core/errors.ts';
import { kindOf } from '../../core/options/option-names.ts';
import { scriptCommands } from '../commands/script-command.ts';
import type { CommandClass, ScriptCommands } from '../commands/script-command.ts';

/** An ioredis client, possibly of another copy or version of ioredis. It is only duplicated. */
export interface RedisInstance {
  readonly options: object;
  duplicate(override?: any): unknown;
}

/**
 * One independent Redis server: a URL (`redis://` or `rediss://`), ioredis options, or an ioredis client. A client is
 * duplicated, and never closed, subscribed on or reconfigured.
 */
export type RedisNodeInput = string | RedisOptions | RedisInstance;

/** How long TCP and TLS may take, and then the handshake with the server. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** How long a closing socket may linger. */
export const DISCONNECT_TIMEOUT_MS = 50;

/**
 * What the protocol needs of a client: one connection and then no more (we reconnect ourselves), nothing queued, nothing
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
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
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
  /** For the copy of ioredis that the clients are of, once one of them has connected. */
  commands: ScriptCommands = scriptCommands();
  /** Its server says that it is no primary. */
  onDemoted: ((message: string) => void) | undefined;
  /** Whether a client was ready once. */
  hasConnected = false;
  /** Whether connections, and the pauses before the next one, keep this process alive. */
  holdsProcess = true;
  readonly #template: RedisInstance;
  #hasSeenCommand = false;

  /**
   * @param option the name of the input in messages
   * @throws RedlockConfigError when the input is not a Redis node, or is a Cluster or Sentinel client
   */
  constructor(input: RedisNodeInput, option = 'nodes') {
    // Without the value, which may hold a password.
    const refused: Refusal = (shown, fix) => new RedlockConfigError(option, undefined, fix, shown);
    this.#template = templateOf(input, refused);
    const options = this.#template.options as RedisOptions;
    this.address = addressOf(options);
    this.ignoredKeyPrefix = typeof options.keyPrefix === 'string' ? options.keyPrefix : '';
  }

  get usesTls(): boolean {
    return Boolean((this.#template.options as RedisOptions).tls);
  }

  /** A client that has not connected yet. */
  create(): Redis {
    const client = this.#template.duplicate(OVERRIDES) as Redis;
    if (this.#hasSeenCommand) return client;
    // The first command of a client (its ready check at the latest) shows the class of commands that it works with.
    const sendCommand = client.sendCommand.bind(client);
    client.sendCommand = (command, stream) => {
      client.sendCommand = sendCommand;
      this.#hasSeenCommand = true;
      this.commands = scriptCommands(command.constructor as CommandClass);
      return sendCommand(command, stream);
    };
    return client;
  }

  /** The message without the password, should the server have quoted it; without line breaks, and not longer than a line or two. */
  conceal(message: string): string {
    if (OF_REDIS.includes(message)) return message;
    const { password } = this.#template.options as RedisOptions;
    const hidden =
      typeof password === 'string' && password !== ''
        ? message.replaceAll(password, '***')
        : message;
    const concealed = hidden.replaceAll(/\s+/g, ' ').trim();
    return concealed.length > 500 ? `${concealed.slice(0, 500)}…` : concealed;
  }
}

/** Whole messages in which a password that is a usual word is a word of Redis. */
const OF_REDIS: readonly string[] = [
  'WRONGPASS invalid username-password pair or user is disabled.',
  'ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?',
];

type Refusal = (shown: string, fix: string) => RedlockConfigError;
type WrongValue = (name: string, shown: string, fix: string) => RedlockConfigError;

const FORMS = 'each is a URL (redis://host:port), ioredis options, or an ioredis client';

function templateOf(input: RedisNodeInput, refused: Refusal): RedisInstance {
  if (typeof input === 'string') return templateOfUrl(input, refused);
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw refused(kindOf(input), FORMS);
  // ioredis would connect to localhost: it knows neither the options of node-redis nor its clients.
  const foreign = ['socket', 'isOpen'].find((name) => name in input);
  if (foreign !== undefined)
    throw refused(`an object that has '${foreign}', as those of node-redis have`, FORMS);
  const masters = 'give independent masters; a lock node cannot be a Redis Cluster';
  if ('isCluster' in input && input.isCluster === true) throw refused('a cluster client', masters);
  if ('duplicate' in input && typeof input.duplicate === 'function') {
    const inTests = 'in tests without Redis use createMemoryNodes of nestjs-fenced-lock/testing';
    if (!('connector' in input)) throw refused('a client not of ioredis, such as a mock', inTests);
    checkValues(input.options, 'a client', refused);
    return input;
  }
  const options = { ...(input as RedisOptions) };
  const prototype: unknown = Object.getPrototypeOf(input);
  // Plain objects of other realms have another prototype, which has none.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  checkNames(options, isPlain, refused);
  checkValues(options, 'options', refused);
  return new Redis({ ...options, ...OVERRIDES, keyPrefix: options.keyPrefix });
}

/** Names of ioredis that have no default. */
const WITHOUT_DEFAULT =
  'path tls Connector blockingTimeout offlineQueue commandQueue preferredSlaves ' +
  'sentinelUsername sentinelPassword sentinelTLS sentinelCommandTimeout';

/** The names that ioredis knows. */
function knownNames(): string[] {
  const { options: defaults } = new Redis({ lazyConnect: true });
  return [...Object.keys({ ...defaults, ...OVERRIDES }), ...WITHOUT_DEFAULT.split(' ')];
}

/** ioredis passes over names that it does not know, and a copy has none of a class: it would connect to localhost. */
function checkNames(options: RedisOptions, isPlain: boolean, refused: Refusal): void {
  if (options.host || isElsewhere(options) || options.sentinels) return;
  const known = knownNames();
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length === 0 && isPlain) return;
  // Names may be a secret at the wrong side of the colon.
  const names = unknown.filter((name) => /^\w{1,30}$/.test(name)).slice(0, 3);
  const named = names.length > 0 ? `with '${names.join("', '")}' and ` : '';
  throw refused(`options ${named}without a host`, FORMS);
}

/** Whether something besides the host says where the server is. What `tls` has goes to the socket as it is. */
function isElsewhere({ path, Connector, tls }: RedisOptions): boolean {
  return Boolean(path || Connector || tls?.host || tls?.path || tls?.socket);
}

/** What ioredis would print with a password, take for localhost, or fail to select, which would end the process. */
function checkValues(options: RedisOptions, what: string, refused: Refusal): void {
  const masters =
    'list the masters themselves, independent of each other; a Sentinel fails over to a replica, which forgets locks';
  if (options.sentinels != null) throw refused('sentinels', masters);
  const wrong: WrongValue = (name, shown, fix) =>
    refused(`${what} with a wrong ${name} (${shown})`, fix);
  checkPlace(options, wrong);
  const { path, port, db } = options;
  // Only undefined stands for the default.
  if (!path && port !== undefined && !isWhole(port, 65_535))
    throw wrong('port', shownOf(port), 'give a whole number up to 65535');
  const fix = 'give the number of a database, from 0, as in { db: 0 } or redis://host:6379/0';
  if (db != null && !isWhole(db)) throw wrong('db', shownOf(db), fix);
  checkCertificates(options, wrong);
}

/** Node passes over a `ca` that is a path, and of the others OpenSSL speaks. */
function checkCertificates({ tls }: RedisOptions, wrong: WrongValue): void {
  for (const name of ['ca', 'cert', 'key'] as const) {
    const texts = [tls?.[name]].flat().filter((text) => typeof text === 'string');
    const fix = 'give the content of the file: readFileSync(path)';
    if (texts.some((text) => text !== '' && !text.includes('-----BEGIN')))
      throw wrong(`tls.${name}`, 'a text that is no PEM, such as a path', fix);
  }
}

function checkPlace(options: RedisOptions, wrong: WrongValue): void {
  const { host, path } = options as { readonly host?: unknown; readonly path?: unknown };
  const url = 'a URL itself as the node, in place of';
  if (path && typeof path !== 'string') throw wrong('path', kindOf(path), 'give a string');
  if (typeof path === 'string' && /^\w+:\/\//.test(path))
    throw wrong('path', 'a URL', `give ${url} { path }`);
  if (host != null && typeof host !== 'string')
    throw wrong('host', kindOf(host), 'give a name or an IP address, a string');
  if (host && /[/@\s]/.test(host))
    throw wrong('host', "one with '/', '@' or blanks", `give it alone, or ${url} { host }`);
  if (host?.startsWith('[')) throw wrong('host', 'one in brackets', 'give it without the brackets');
  if (host || isElsewhere(options)) return;
  const empty = ['host', 'path'].find((name) => Object.hasOwn(options, name));
  const fix = 'it would mean localhost; give one, or leave it out';
  if (empty === 'host' || (empty === 'path' && options.port == null))
    throw wrong(empty, shownOf(options[empty]), fix);
}

function isWhole(value: unknown, most = Infinity): boolean {
  const isText = typeof value === 'string' || typeof value === 'number';
  return isText && /^\s*\d+\s*$/.test(String(value)) && Number(value) <= most;
}

/** Not what a string says, which may be misplaced and secret. */
function shownOf(value: unknown): string {
  return typeof value === 'number' ? String(value) : value === '' ? 'empty' : kindOf(value);
}

function templateOfUrl(url: string, refused: Refusal): RedisInstance {
  if (/,\s*rediss?:\/\//i.test(url)) {
    const fix = 'give an array with one URL for each server, for example urls.split(/\\s*,\\s*/)';
    throw refused('several URLs in one string', fix);
  }
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase();
  if (url.trim() === '' || (scheme !== undefined && scheme !== 'redis' && scheme !== 'rediss')) {
    const fix = 'give redis://host:6379, rediss://host:6379, or the path of a socket alone';
    throw refused(JSON.stringify(scheme === undefined ? url : `${scheme}://…`), fix);
  }
  if (/^\s/.test(url)) throw refused('a URL that begins with a blank', 'trim it');
  // ioredis does not know it, and would send the password without TLS.
  if (scheme !== 'rediss' && /[?&](ssl|secure)=/i.test(url))
    throw refused("a URL with 'ssl' or 'secure'", 'write rediss:// for TLS, or leave it out');
  const fix = 'give redis://user:password@host:port/db, with special characters percent-encoded';
  // ioredis would take what precedes it in a password for the host, and messages show the host.
  if (/^[^/?#]+(#|[/?].*[@#])/s.test(url.replace(/^(rediss?:)?\/\//i, '')))
    throw refused('a malformed URL', fix);
  // ioredis would take what follows the slash for the path of a socket.
  if (scheme === undefined && /^[^/?]+\//.test(url)) throw refused('a malformed URL', fix);
  let template: Redis;
  try {
    // An empty host stays where the URL has none; a port alone, such as '6380', is one of localhost.
    const host = /^\d+\s*$/.test(url) ? 'localhost' : '';
    template = new Redis(url, { lazyConnect: true, host });
    template.on('error', () => undefined);
    template.disconnect();
  } catch {
    throw refused('a malformed URL', fix);
  }
  const { options } = template;
  if (!options.host && !isElsewhere(options)) {
    const forms = 'give redis://host:port, or the path of a socket alone, such as /run/redis.sock';
    throw refused('a URL without a host', forms);
  }
  checkValues({ ...options, db: databaseOf(url) ?? options.db } as RedisOptions, 'a URL', refused);
  return template;
}

/** As it stands in the URL: of '3a', ioredis would take the 3. */
function databaseOf(url: string): string | null {
  const [, path] = /^(?:rediss?:)?\/\/[^/?#]*\/([^?#]+)/i.exec(url) ?? [];
  const [, query] = /\?([^#]*)/.exec(url) ?? [];
  return path?.replace(/\/$/, '') ?? new URLSearchParams(query).get('db');
}

function addressOf(options: RedisOptions): string {
  if (typeof options.path === 'string' && options.path !== '') return options.path;
  const host = options.host ?? 'localhost';
  return `${host.includes(':') ? `[${host}]` : host}:${options.port ?? 6379}`;
}
