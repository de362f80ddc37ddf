import { connect as connectTcp, isIP, type Socket, type TcpNetConnectOpts } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector } from 'ioredis';
import type { RedisOptions } from 'ioredis';
import { ReplyGuard } from './reply-guard.ts';

/** Where a server is, as the options of a socket. */
export type Place = Pick<RedisOptions, 'host' | 'port' | 'family' | 'path' | 'tls'>;

/** Says where the server is, for one connection with these options. */
export type FindServer = (options: RedisOptions, signal: AbortSignal) => Promise<Place>;

const REPLICA = 'the server that was named as the primary is a replica';

/** The socket of one client, which ioredis takes by its option `Connector`. */
export class ServerSocket extends AbstractConnector {
  readonly guard = new ReplyGuard();
  /** Undefined until it is known where the server is. */
  socket: Socket | undefined;
  /** ioredis asks for it where the socket is closed before it was given. */
  override firstError?: Error;
  /** Called when the client has read what arrived. */
  onData = (): void => undefined;
  readonly #options: RedisOptions;
  readonly #find: FindServer;
  readonly #isFound: boolean;
  readonly #end = new AbortController();

  /** @param isFound others say which server is the primary; they may not know yet that another one is */
  constructor(options: RedisOptions, find: FindServer, isFound: boolean) {
    super(options.disconnectTimeout!);
    this.#options = options;
    this.#find = find;
    this.#isFound = isFound;
  }

  async connect(): Promise<Socket> {
    const { path, host, port, family, tls } = await this.#find(this.#options, this.#end.signal);
    if (this.#end.signal.aborted) throw new Error('Connection is closed.');
    const place = (path ? { path } : { host, port, family }) as TcpNetConnectOpts;
    const socket = tls ? connectTls({ ...place, ...tls }) : connectTcp(place);
    // TLS can bring a second error, for which ioredis does not listen: the answer to a handshake that was given up.
    socket.on('error', (error) => (this.firstError ??= error));
    this.#watch(socket);
    this.stream = this.socket = socket;
    return socket;
  }

  /** Says whether a server that has answered INFO is one to stay with. */
  override check(info: { readonly role?: string } | null): boolean {
    if (!this.#isFound || info?.role !== 'slave') return true;
    this.socket?.destroy(new Error(REPLICA));
    return false;
  }

  override disconnect(): void {
    this.#end.abort();
    super.disconnect();
  }

  /** Stands between the socket and the client, which writes each command by itself. */
  #watch(socket: Socket): void {
    const { guard } = this;
    const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
    const emit = socket.emit.bind(socket) as (...given: unknown[]) => boolean;
    socket.write = (...given: unknown[]) => {
      guard.due += 1;
      return write(...given);
    };
    socket.emit = (event: string, ...given: unknown[]) => {
      if (event !== 'data') return emit(event, ...given);
      // ioredis ended it, and destroys it 50 ms later: an answer that arrives meanwhile comes too late.
      if (socket.destroyed || this.#end.signal.aborted) return false;
      const fault = guard.read(given[0] as Buffer);
      if (fault !== undefined) return socket.destroy(new Error(fault)).destroyed;
      try {
        emit(event, ...given);
      } catch (error) {
        // The parser of ioredis 5 throws over what it can't read.
        socket.destroy(error as Error);
      }
      this.onData();
      return true;
    };
  }
}

/** The class of sockets that find their server in this way, for the option `Connector`. @param took receives each of them */
export function connectorFor(
  find: FindServer,
  isFound = false,
  took: (socket: ServerSocket) => unknown = () => undefined,
): new (options: unknown) => ServerSocket {
  return class ClientSocket extends ServerSocket {
    constructor(options: unknown) {
      super(options as RedisOptions, find, isFound);
      took(this);
    }
  };
}

/** TLS with the name of the server, by which routers find it that serve several. Node.js leaves it out where it is given an address. */
export function withName(tls: RedisOptions['tls'], host: string | undefined): RedisOptions['tls'] {
  return tls && host && !isIP(host) ? { servername: host, ...tls } : tls;
}
