import { Redis } from 'ioredis';
import type { RedisOptions } from 'ioredis';
import { RedlockConfigError } from '../../core/errors.ts';
import { kindOf, meantBy } from '../../core/options/resolve-options.ts';
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
  readonly #template: RedisInstance;
  #hasSeenCommand = false;

  /**
   * @param option the name of the input in messages
   * @throws RedlockConfigError when the input is none, or a cluster or sentinels
   */
  constructor(input: RedisNodeInput, option = 'nodes') {
    // Without the value, which may hold a password.
    const refused: Refusal = (shown, fix) => new RedlockConfigError(option, undefined, fix, shown);
    this.#template = templateOf(input, refused);
    const options = this.#template.options as RedisOptions;
    checkSentinels(options, refused);
    this.address = addressOf(options);
    this.ignoredKeyPrefix = typeof options.keyPrefix === 'string' ? options.keyPrefix : '';
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

  /** The message without the password, should the server have quoted it; not longer than a line or two. */
  conceal(message: string): string {
    const { password } = this.#template.options as RedisOptions;
    const concealed =
      typeof password === 'string' && password !== ''
        ? message.replaceAll(password, '***')
        : message;
    return concealed.length > 500 ? `${concealed.slice(0, 500)}…` : concealed;
  }
}

type Refusal = (shown: string, fix: string) => RedlockConfigError;

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
  if ('duplicate' in input && typeof input.duplicate === 'function') return input;
  checkNames(input as RedisOptions, refused);
  // ioredis has errors of its own for some of them.
  checkSentinels(input as RedisOptions, refused);
  return new Redis({
    ...(input as RedisOptions),
    ...OVERRIDES,
    keyPrefix: (input as RedisOptions).keyPrefix,
  });
}

const CLASSES = new Map([
  ['URL', 'give its href, a string'],
  ['Promise', 'await it, for example in the factory of forRootAsync'],
]);

/** What ioredis would pass over, and connect to localhost or without a password, in lower case. */
const MISPLACED: readonly (readonly [RegExp, string])[] = [
  [/^(ur[il]|addr(ess)?|endpoint|connectionstring)$/, 'give the URL itself, as a string'],
  [/^(connection|(redis)?(options|config)|redis)$/, 'give the options that are inside it'],
  [/^passphrase$/, 'give it as tls: { passphrase }'],
];

/** What may say where the server is, in lower case. */
const PLACE = /^(server|ip)(_?(name|host|addr(ess)?))?$/;

/** The names that ioredis knows. Those with a default are most; a slip of 'sentinels' would be 'sentinelTLS'. */
function knownNames(): string[] {
  const { options: defaults } = new Redis({ lazyConnect: true });
  return Object.keys({ ...defaults, ...OVERRIDES, path: '', tls: {}, sentinelTLS: {} });
}

/** ioredis passes over names that it does not know. Of others than slips nobody can tell: owners may add their own. */
function checkNames(options: RedisOptions, refused: Refusal): void {
  const known = knownNames();
  if (!isCopiedWhole(options, known)) {
    const name = (options as { constructor?: { name?: string } }).constructor?.name ?? 'Object';
    const fix = 'give a URL, an ioredis client, or a plain object whose own fields are the options';
    throw refused(`an object of class ${name}`, CLASSES.get(name) ?? fix);
  }
  const isPlaced = options.host != null || options.path != null;
  for (const name of Object.keys(options).filter((each) => !known.includes(each))) {
    const lower = name.toLowerCase();
    const [, place] = MISPLACED.find(([names]) => names.test(lower)) ?? [];
    if (place !== undefined)
      throw refused(`options with '${name}'`, `ioredis does not know it; ${place}`);
    const meant = !isPlaced && PLACE.test(lower) ? 'host' : meantBy(lower, known);
    const shown = `options with '${name}' (did you mean '${meant}'?)`;
    if (meant !== undefined) throw refused(shown, 'ioredis does not know it');
  }
}

/** What a query may say that matters here. Other clients that read the same URL have many more names. */
const IN_QUERY = ['host', 'port', 'path', 'db', 'username', 'password', 'tls', 'family'];

/** As {@link checkNames}, for the query of a URL, which ioredis has put among the options. */
function checkQuery(options: RedisOptions, refused: Refusal): void {
  const known = knownNames();
  for (const name of Object.keys(options).filter((each) => !known.includes(each))) {
    const meant = meantBy(name.toLowerCase(), IN_QUERY);
    // 'ssl=true' beside rediss:// changes nothing.
    if (meant === undefined || (meant === 'tls' && options.tls)) continue;
    const better = meant === 'tls' ? 'rediss://' : `'${meant}'`;
    throw refused(`a URL with '${name}' (did you mean ${better}?)`, 'ioredis does not know it');
  }
}

/** Whether `{ ...options }` has all that they say; of a class, they say at least where the server is. */
function isCopiedWhole(options: object, known: readonly string[]): boolean {
  const isOwn = (name: string): boolean => Object.hasOwn(options, name);
  if (known.some((name) => name in options && !isOwn(name))) return false;
  const prototype: unknown = Object.getPrototypeOf(options);
  // Plain objects of other realms have another prototype, which has none.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return isPlain || ['host', 'port', 'path'].some(isOwn);
}

function checkSentinels(options: RedisOptions, refused: Refusal): void {
  const fix =
    'list the masters themselves, independent of each other; a Sentinel fails over to a replica, which forgets locks';
  if (options.sentinels != null) throw refused(JSON.stringify(addressOf(options)), fix);
}

function templateOfUrl(url: string, refused: Refusal): RedisInstance {
  if (/,\s*rediss?:\/\//i.test(url)) {
    const fix = 'give an array with one URL for each server, for example urls.split(/\\s*,\\s*/)';
    throw refused('several URLs in one string', fix);
  }
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase();
  if (url.trim() === '' || (scheme !== undefined && scheme !== 'redis' && scheme !== 'rediss')) {
    const fix = 'give a URL such as redis://host:6379 or rediss://host:6379';
    throw refused(JSON.stringify(scheme === undefined ? url : `${scheme}://…`), fix);
  }
  if (/^\s/.test(url)) throw refused('a URL that begins with a blank', 'trim it');
  const fix = 'give redis://user:password@host:port/db, with special characters percent-encoded';
  // ioredis would take what follows the slash for the path of a socket.
  if (scheme === undefined && /^[^/?]+\//.test(url)) {
    // A password or a query is not shown.
    const [, tls = '', place] = /^(?:redis(s?)[:/]\/)?\/*([^@?]+)$/i.exec(url) ?? [];
    const hint = place === undefined ? '' : ` (did you mean redis${tls}://${place}?)`;
    throw refused(`a malformed URL${hint}`, fix);
  }
  let template: Redis;
  try {
    template = new Redis(url, { lazyConnect: true });
    template.on('error', () => undefined);
    template.disconnect();
  } catch {
    throw refused('a malformed URL', fix);
  }
  checkQuery(template.options, refused);
  return template;
}

function addressOf(options: RedisOptions): string {
  if (typeof options.path === 'string' && options.path !== '') return options.path;
  const host = options.host ?? 'localhost';
  return `${host.includes(':') ? `[${host}]` : host}:${options.port ?? 6379}`;
}
