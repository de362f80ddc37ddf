import type { TimerHandle, Timers } from '../../core/environment.ts';
import { MemoryConnection } from './memory-connection.ts';
import type { MemoryCommand } from './memory-connection.ts';
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

  /** A connection is up: what is sent now reaches the server unless something breaks. */
  get isUp(): boolean {
    return this.#up;
  }

  /** Sends the command; without a connection nothing happens. */
  send(command: MemoryCommand): void {
    if (this.#up) this.#connection?.send(command);
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

  reset(): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#abandon(connection, 'reset');
    this.#lost(connection, 'reset');
  }

  close(): void {
    const { connection, listener, wasUp } = {
      connection: this.#connection,
      listener: this.#listener,
      wasUp: this.#up,
    };
    this.#timers.clear(this.#reconnectTimer);
    this.#listener = undefined;
    this.#connection = undefined;
    this.#up = false;
    if (connection) this.#abandon(connection, 'closed');
    if (wasUp) listener?.closed('closed');
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

  #abandon(connection: MemoryConnection, message: string): void {
    if (this.#frozen) this.#abandoned.add(connection);
    connection.close(message);
  }

  #reconnectLater(): void {
    this.#timers.clear(this.#reconnectTimer);
    if (this.#listener === undefined) return;
    this.#reconnectTimer = this.#timers.set(() => this.#connect(), this.#reconnectDelayMs);
  }

  #travel(arrive: () => void): void {
    // Not queueMicrotask: users' fake timers replace it.
    if (this.latencyMs <= 0) void Promise.resolve().then(arrive);
    else this.#timers.set(arrive, this.latencyMs / 2);
  }
}
