import { inModuleContext, systemEnvironment } from '../../core/system-environment.ts';
import { errorMessage, errorReply } from '../commands/node-failure.ts';
import * as problems from '../problems.ts';
import { NOT_WRITABLE, type Wire, type WireCommand, type WireListener } from '../wire.ts';
import type { NodeRedisClient, NodeRedisSource } from './node-redis-source.ts';

type Asker = Pick<WireCommand, 'answered' | 'refused'>;

/**
 * A client of node-redis that is good for one connection, used by its public API.
 *
 * Its first error is its end. The client goes on after one of its parser, which may stand amid a reply then.
 */
export class NodeRedisWire implements Wire {
  readonly closed: Promise<void>;
  readonly #source: NodeRedisSource;
  readonly #listener: WireListener;
  /** Ends the socket, also while it connects, which the client would leave open. */
  readonly #end = new AbortController();
  /** Undefined until its credentials are known. */
  #client: NodeRedisClient | undefined;
  #state: 'new' | 'connected' | 'ready' | 'closing' | 'ended' = 'new';
  /** How many commands were sent, and not answered. */
  #due = 0;
  #isHeld = true;
  #error = '';
  #confirmClosed = (): void => undefined;

  /** Called in the context of the module: sockets keep the one in which they were made. */
  constructor(source: NodeRedisSource, listener: WireListener, host: string | undefined) {
    this.#source = source;
    this.#listener = listener;
    this.closed = new Promise((resolve) => (this.#confirmClosed = resolve));
    const made = source.create(host, this.#end.signal);
    made.then((client) => this.#connect(client)).catch((error: unknown) => this.#failed(error));
  }

  get problem(): string {
    const { usesTls, hasConnected } = this.#source;
    if (this.#state === 'ended' && !hasConnected)
      return (this.#error || problems.CLOSED) + problems.adviceAboutTls(this.#error, usesTls, true);
    if (this.#error !== '') return this.#error;
    if (this.#state === 'connected') return problems.UNANSWERED;
    if (this.#state !== 'new') return problems.CLOSED;
    if (this.#client === undefined) return problems.NOT_AUTHORIZED;
    return usesTls ? problems.NO_TLS : problems.NOT_CONNECTED;
  }

  get isReady(): boolean {
    return this.#state === 'ready' && this.#client!.isReady;
  }

  get isAsked(): boolean {
    return this.#due > 0;
  }

  get #isOver(): boolean {
    return this.#state === 'closing' || this.#state === 'ended';
  }

  /** The client writes them together, in one packet, in this turn of the event loop. */
  write(commands: readonly WireCommand[]): void {
    for (const command of commands) {
      const words = command.words.map(String);
      this.#ask((client) => client.sendCommand(words), command);
    }
  }

  subscribe(channel: string): Promise<unknown> {
    const heard = (text: string, from: string) =>
      inModuleContext(() => {
        this.#listener.received();
        this.#listener.message(from, text);
      });
    return new Promise((answered, refused) =>
      this.#ask((client) => client.subscribe(channel, heard), { answered, refused }),
    );
  }

  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    if (isHeld) this.#client?.ref();
    else this.#client?.unref();
  }

  close(): void {
    if (this.#isOver) return;
    this.#state = 'closing';
    // The client has asked for its turn to write before.
    systemEnvironment.afterPoll(() => this.#ended());
  }

  async #connect(client: NodeRedisClient): Promise<void> {
    this.#client = client;
    // A client that was given up meanwhile must not connect.
    if (this.#isOver) return this.#destroy();
    client.on('error', (error: unknown) => inModuleContext(() => this.#failed(error)));
    client.on('connect', () => {
      if (this.#state === 'new') this.#state = 'connected';
    });
    await client.connect();
    const refused = (error: unknown) => errorReply(errorMessage(error));
    const info = String(await client.sendCommand(['info']).catch(refused));
    // A user who may not ask finds out with the first command. The text of an error has its name before it.
    if (/^loading:1/m.test(info)) throw new Error('the server is loading its data');
    if (/^ReplyError: (?!NOPERM)/.test(info)) throw new Error(info.slice('ReplyError: '.length));
    if (this.#isOver) return;
    this.#state = 'ready';
    this.#source.hasConnected = true;
    this.hold(this.#isHeld);
    inModuleContext(() => this.#listener.ready());
  }

  /** What is refused on a connection without an error was refused by the server: the client has no name for that. */
  #ask(ask: (client: NodeRedisClient) => Promise<unknown>, asker: Asker): void {
    const settle = (tell: () => void) => {
      this.#due -= 1;
      if (this.#state !== 'ready') return asker.refused(new Error(problems.CLOSED));
      this.#listener.received();
      tell();
    };
    inModuleContext(() => {
      if (!this.isReady) return queueMicrotask(() => asker.refused(new Error(NOT_WRITABLE)));
      this.#due += 1;
      try {
        ask(this.#client!).then(
          (reply) => settle(() => asker.answered(reply)),
          (error: unknown) => settle(() => asker.refused(errorReply(errorMessage(error)))),
        );
      } catch (error) {
        // A wrapper of the client threw, such as a tracer. Nobody knows what became of this command; those after it are sent.
        queueMicrotask(() => settle(() => asker.refused(error)));
      }
    });
  }

  #failed(error: unknown): void {
    if (this.#isOver) return;
    // It looks up who waits for a reply, and finds nobody.
    const isUnasked = error instanceof TypeError && this.#state !== 'new';
    const message = isUnasked ? problems.UNASKED : errorMessage(error);
    // This is what it says where the server closed the connection.
    if (!message.startsWith('Socket closed unexpectedly'))
      this.#error = this.#source.conceal(message);
    this.#ended();
  }

  #ended(): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#destroy();
    this.#confirmClosed();
    this.#listener.ended();
  }

  #destroy(): void {
    try {
      this.#client?.destroy();
    } catch {
      // Version 5 throws where it has ended already.
    }
    this.#end.abort();
  }
}
