import { inModuleContext } from '../../core/module-context.ts';
import type { TimerHandle, Timers } from '../../core/environment.ts';
import { MemoryConnection } from './memory-connection.ts';
import type { MemoryLockServer } from './memory-lock-server.ts';

export interface MemoryLinkListener {
  opened(): void;
  closed(message: string): void;
  published(channel: string, holder: string): void;
}

/** The way from one node object to its server: one connection at a time, made anew whenever it is lost. */
export class MemoryLink {
  /** Round trip of what is sent from now on, ms. */
  latencyMs: number;
  readonly #server: MemoryLockServer;
  readonly #timers: Timers;
  readonly #reconnectDelayMs: number;
  #listener: MemoryLinkListener | undefined;
  #connection: MemoryConnection | undefined;
  /** Closed by us while requests were stuck in the network. */
  readonly #abandoned = new Set<MemoryConnection>();
  #up = false;
  #frozen = false;
  #reconnectTimer: TimerHandle;

  constructor(
    server: MemoryLockServer,
    timers: Timers,
    latencyMs: number,
    reconnectDelayMs: number,
  ) {
    this.#server = server;
    this.#timers = timers;
    this.latencyMs = latencyMs;
    this.#reconnectDelayMs = reconnectDelayMs;
  }

  get isOpen(): boolean {
    return this.#listener !== undefined;
  }

  open(listener: MemoryLinkListener): void {
    this.#listener = listener;
    this.#connect();
  }

  /** The connection, when it is up: what is sent now reaches the server unless something breaks. */
  get connection(): MemoryConnection | undefined {
    return this.#up ? this.#connection : undefined;
  }

  subscribe(channel: string): void {
    if (this.#connection) this.#server.subscribe(channel, this.#connection);
  }

  unsubscribe(channel: string): void {
    if (this.#connection) this.#server.unsubscribe(channel, this.#connection);
  }

  freeze(): void {
    this.#frozen = true;
  }

  resume(): void {
    this.#frozen = false;
    for (const connection of this.#abandoned) connection.drain();
    this.#abandoned.clear();
    this.#connection?.drain();
  }

  breakOff(message: string): void {
    this.#connection?.breakOff(message);
  }

  /** Sends what was collected; it is executed, however late. */
  close(): void {
    const connection = this.#connection;
    const listener = this.#up ? this.#listener : undefined;
    this.connection?.flush();
    this.#timers.clear(this.#reconnectTimer);
    this.#listener = undefined;
    this.#connection = undefined;
    this.#up = false;
    if (connection && this.#frozen) this.#abandoned.add(connection);
    connection?.close('closed');
    listener?.closed('closed');
  }

  #connect(): void {
    const connection: MemoryConnection = new MemoryConnection(this.#server, {
      travel: (arrive) => this.#travel(arrive),
      isFrozen: () => this.#frozen,
      lost: (message) => this.#lost(connection, message),
      published: (channel, holder) => this.#listener?.published(channel, holder),
    });
    if (!this.#server.connect(connection)) {
      this.#reconnectLater();
      return;
    }
    this.#connection = connection;
    // A stopped server accepts connections but answers nothing: its first answer makes this one count.
    connection.send({ execute: () => 'PONG', settle: () => this.#opened(connection) });
  }

  #opened(connection: MemoryConnection): void {
    if (this.#connection !== connection || connection.closed) return;
    this.#up = true;
    this.#listener?.opened();
  }

  #lost(connection: MemoryConnection, message: string): void {
    if (this.#connection !== connection) return;
    const wasUp = this.#up;
    this.#connection = undefined;
    this.#up = false;
    this.#reconnectLater();
    if (wasUp) this.#listener?.closed(message);
  }

  #reconnectLater(): void {
    this.#timers.clear(this.#reconnectTimer);
    if (this.#listener === undefined) return;
    this.#reconnectTimer = this.#timers.set(() => this.#connect(), this.#reconnectDelayMs, true);
  }

  #travel(arrive: () => void): void {
    const deliver = () => inModuleContext(arrive);
    // Not queueMicrotask: users' fake timers replace it.
    if (this.latencyMs <= 0) void Promise.resolve().then(deliver);
    else this.#timers.set(deliver, this.latencyMs / 2, true);
  }
}
