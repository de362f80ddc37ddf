import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { RedlockConfigError } from '../../core/errors.ts';
import type { ClientSourceOptions } from '../client/client-source.ts';
import {
  askForCredentials,
  concealed,
  KEPT_SECRETS,
  type NodeCredentials,
} from '../credentials.ts';
import type { WireListener, WireSource } from '../wire.ts';
import { NodeRedisWire } from './node-redis-wire.ts';

/** A client of node-redis, by the part of its API that is used. */
export interface NodeRedisClient {
  readonly options: NodeCredentials & {
    readonly socket?: Omit<ConnectionOptions, 'path'> & { tls?: boolean; path?: string };
    readonly keyPrefix?: string | Buffer;
    readonly credentialsProvider?: { credentials?(): Promise<NodeCredentials> };
  };
  readonly isReady: boolean;
  duplicate(override: object): NodeRedisClient;
  on(event: string, listener: (given: unknown) => void): unknown;
  connect(): Promise<unknown>;
  sendCommand(words: readonly string[]): Promise<unknown>;
  subscribe(channel: string, listener: (text: string, channel: string) => void): Promise<unknown>;
  ref(): void;
  unref(): void;
  destroy(): void;
}

/**
 * Options that the protocol needs of a client: one connection and then no more (we reconnect ourselves), nothing queued, nothing
 * that gives a command up, replies of one form. Name, database, TLS and credentials stay as the user gave them.
 */
const OVERRIDES = {
  // What it says is in the other options, and would win over them.
  url: undefined,
  RESP: 2,
  disableOfflineQueue: true,
  commandsQueueMaxLength: undefined,
  commandOptions: { timeout: undefined },
  maintNotifications: 'disabled',
  disableClientInfo: true,
  clientSideCache: undefined,
  emitInvalidate: false,
  pingInterval: 0,
  readonly: false,
} as const;

const OF_SOCKET = {
  reconnectStrategy: false,
  // The owner of the connection gives it its time, with the handshake.
  connectTimeout: 0,
  socketTimeout: undefined,
  noDelay: true,
  // Networks forget connections that are idle for minutes; the system asks after two hours.
  keepAlive: true,
  keepAliveInitialDelay: 10_000,
} as const;

/** Says whether it is a client of node-redis 5 or 6, or one of its clusters, Sentinels or pools. */
export function isOfNodeRedis(input: unknown): input is object {
  return typeof Object(input).withCommandOptions === 'function';
}

/** Makes the clients of one node, each good for one connection, as duplicates of a client of node-redis. */
export class NodeRedisSource implements WireSource {
  readonly address: string;
  readonly host: string | undefined;
  readonly ignoredKeyPrefix: string;
  readonly usesTls: boolean;
  /** A client was ready once. */
  hasConnected = false;
  readonly #template: NodeRedisClient;
  readonly #credentials: ClientSourceOptions['credentials'];
  #secrets: readonly unknown[];

  /** @throws RedlockConfigError when it is no client of one server */
  constructor(input: object, { option = 'nodes', credentials }: ClientSourceOptions = {}) {
    this.#template = input as NodeRedisClient;
    this.#credentials = credentials;
    const { options } = this.#template;
    const refused = (shown: string, fix: string) =>
      new RedlockConfigError(option, undefined, fix, shown);
    // The other classes keep their options to themselves, and connect again by themselves.
    if (typeof options !== 'object')
      throw refused(
        'a cluster, Sentinel or pool of node-redis',
        'give the client of one server, or { sentinels, name } or { cluster }, which take ioredis',
      );
    const { host = 'localhost', port = 6379, path, tls = false } = options.socket ?? {};
    // Messages show it, so it may not be a URL with a password.
    if (/[/@\s]/.test(host))
      throw refused('a node with a wrong host', 'give a name or an IP address');
    this.address = path ?? `${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.host = path === undefined ? host : undefined;
    this.ignoredKeyPrefix = options.keyPrefix?.toString() ?? '';
    this.usesTls = tls;
    this.#secrets = [options.password];
  }

  connect(listener: WireListener, host?: string): NodeRedisWire {
    return new NodeRedisWire(this, listener, host);
  }

  /** A client that has not connected yet, good for one connection. @param signal ends its socket */
  async create(host = this.host, signal: AbortSignal): Promise<NodeRedisClient> {
    const { options } = this.#template;
    const asked = this.#credentials && (await askForCredentials(this.#credentials, this.address));
    const { credentialsProvider: own } = options;
    const credentials = async () => {
      const known = (await own?.credentials?.()) ?? options;
      const { username = known.username, password = known.password } = asked ?? {};
      this.#secrets = [password, ...this.#secrets].slice(0, KEPT_SECRETS);
      return { username, password };
    };
    // One that streams signs in anew by itself.
    const isStream = own !== undefined && own.credentials === undefined && asked === undefined;
    const type = 'async-credentials-provider';
    const provider = isStream ? {} : { credentialsProvider: { type, credentials } };
    // By its name routers find a server. Node.js leaves it out where it is given an address.
    const named = isIP(this.host ?? '') === 0 && { servername: this.host };
    const tls = asked?.tls && { tls: true, ...asked.tls };
    const where = { ...named, ...options.socket, ...tls, ...(host !== undefined && { host }) };
    const socket = { ...where, ...OF_SOCKET, signal };
    return this.#template.duplicate({ ...OVERRIDES, ...provider, socket });
  }

  conceal(message: string): string {
    return concealed(message, this.#secrets);
  }
}
