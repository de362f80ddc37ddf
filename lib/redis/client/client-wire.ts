import type { Redis } from 'ioredis';
import { inModuleContext } from '../../core/system-environment.ts';
import { errorMessage } from '../commands/node-failure.ts';
import {
  adviceAboutTls,
  CLOSED,
  NO_TLS,
  NOT_AUTHORIZED,
  NOT_CONNECTED,
  UNANSWERED,
} from '../problems.ts';
import type { Wire, WireCommand, WireListener } from '../wire.ts';
import type { ClientSource } from './client-source.ts';
import type { ServerSocket } from './server-socket.ts';

/** A client of ioredis that is good for one connection, used by its public API. */
export class ClientWire implements Wire {
  readonly closed: Promise<unknown>;
  readonly #client: Redis;
  readonly #socket: ServerSocket;
  readonly #source: ClientSource;
  readonly #listener: WireListener;
  #wasReady = false;
  #isAuthorized = false;
  #isGivenUp = false;
  #error = '';

  /** Called in the context of the module: sockets keep the one in which they were made. @throws what the client throws that can't be made */
  constructor(source: ClientSource, listener: WireListener, host: string | undefined) {
    const { client, socket } = source.create(host);
    this.#source = source;
    this.#listener = listener;
    this.#client = client;
    this.#socket = socket!;
    socket!.onData = () => listener.received();
    client.on('error', (error: unknown) => inModuleContext(() => this.#failed(error)));
    client.once('ready', () => inModuleContext(() => this.#ready()));
    this.closed = new Promise((resolve) => client.once('end', resolve));
    client.once('end', () => inModuleContext(() => listener.ended()));
    // A client that was given up meanwhile must not connect.
    const connect = () => {
      this.#isAuthorized = true;
      return client.status === 'wait' ? client.connect() : undefined;
    };
    const connected = source.authorize(client)?.then(connect) ?? connect();
    connected?.catch((error: unknown) => this.#failed(error));
  }

  get problem(): string {
    if (this.#error !== '') return this.#error + this.#shut();
    if (this.#wasReady || this.#client.status === 'end') return CLOSED + this.#shut();
    if (!this.#isAuthorized) return NOT_AUTHORIZED;
    const { socket } = this.#socket;
    if (socket === undefined && this.#source.foundBy !== undefined)
      return 'nobody has answered yet which server is the primary';
    if (socket === undefined || socket.connecting) return NOT_CONNECTED;
    return this.#source.usesTls && socket.bytesRead === 0 ? NO_TLS : UNANSWERED;
  }

  get isReady(): boolean {
    return this.#wasReady && this.#client.status === 'ready';
  }

  get isAsked(): boolean {
    return this.#socket.guard.due > 0;
  }

  get remoteAddress(): string | undefined {
    return this.#socket.socket?.remoteAddress;
  }

  write(commands: readonly WireCommand[]): void {
    const { socket } = this.#socket;
    socket?.cork();
    inModuleContext(() => commands.forEach((command) => this.#send(command)));
    socket?.uncork();
  }

  subscribe(channel: string): Promise<unknown> {
    this.#client.on('message', (from: string, text: string) =>
      inModuleContext(() => this.#listener.message(from, text)),
    );
    this.#socket.guard.subscribed();
    return this.#call(['subscribe', channel]);
  }

  hold(isHeld: boolean): void {
    if (isHeld) this.#socket.socket?.ref();
    else this.#socket.socket?.unref();
  }

  close(): void {
    this.#isGivenUp = true;
    inModuleContext(() => this.#client.disconnect());
  }

  #send(command: WireCommand): void {
    this.#call(command.words).then(
      (reply) => command.answered(reply),
      (error: unknown) => command.refused(error),
    );
  }

  #call(words: WireCommand['words']): Promise<unknown> {
    try {
      return this.#client.call(...(words as [string, ...string[]]));
    } catch (error) {
      // A wrapper of the client threw, such as a tracer. Nobody knows what became of this command; those after it are sent.
      return Promise.reject(error as Error);
    }
  }

  #ready(): void {
    if (this.#isGivenUp || this.#client.status !== 'ready') return;
    this.#wasReady = this.#source.hasConnected = true;
    this.#listener.ready();
  }

  #failed(error: unknown): void {
    const message = errorMessage(error);
    // What follows the first error follows from it.
    if (this.#error === '' && !message.startsWith('Connection is closed.'))
      this.#error = this.#source.conceal(message);
    // ioredis goes on after some refusals (a SELECT, in version 5 also an AUTH), in the wrong database or as another user.
    if (!this.#wasReady) this.close();
  }

  #shut(): string {
    if (this.#source.hasConnected || this.#client.status !== 'end') return '';
    const isUnheard = this.#socket.socket?.bytesRead === 0;
    return adviceAboutTls(this.#error, this.#source.usesTls, isUnheard);
  }
}
