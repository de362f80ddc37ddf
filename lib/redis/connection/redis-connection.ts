import type { Redis } from 'ioredis';
import { CONNECT_TIMEOUT_MS } from './connection-source.ts';
import type { ConnectionSource } from './connection-source.ts';
import { ignoreLateErrors } from './ignore-late-errors.ts';
import { errorMessage } from '../commands/node-failure.ts';

const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 1_000;
/** ioredis closes within its disconnect timeout; should it not say so, nobody waits longer than this. */
const CLOSE_TIMEOUT_MS = 1_000;

export interface RedisConnectionListener {
  /** Connected, authenticated, database selected, not loading. */
  opened(client: Redis): void;
  /** Once for each `opened`. */
  closed(message: string): void;
  /** An attempt to connect came to nothing. */
  failed(message: string): void;
}

/**
 * A connection that is made again when it is lost. Every connection has a client of its own, so that nothing (a queue, a
 * command in flight, a subscription, a half-dead state of a client) can pass from one to the next.
 */
export class RedisConnection {
  /** Why there is no connection. */
  problem = 'not connected yet';
  readonly #source: ConnectionSource;
  readonly #listener: RedisConnectionListener;
  /** All that have not ended, also those given up. */
  readonly #living = new Set<Redis>();
  #current: Redis | undefined;
  #ready = false;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #allEnded: (() => void) | undefined;

  constructor(source: ConnectionSource, listener: RedisConnectionListener) {
    this.#source = source;
    this.#listener = listener;
  }

  /** Starts connecting. */
  open(): void {
    if (!this.#closed && this.#current === undefined && this.#timer === undefined) this.#connect();
  }

  /** The client when commands can be written now. */
  get client(): Redis | undefined {
    return this.#ready && this.#current?.status === 'ready' ? this.#current : undefined;
  }

  /** Gives the present connection up and makes a new one. */
  drop(message: string): void {
    const client = this.#current;
    if (client === undefined) return;
    client.disconnect();
    this.problem = message;
    this.#lost(client);
  }

  /** Resolves when every socket is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const client of this.#living) client.disconnect();
    if (this.#living.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, CLOSE_TIMEOUT_MS);
        this.#allEnded = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const client = this.#current;
    if (client !== undefined) this.#lost(client);
    this.problem = 'closed';
  }

  #connect(): void {
    this.#timer = undefined;
    let client: Redis;
    try {
      client = this.#source.create();
      ignoreLateErrors(client);
    } catch (error) {
      this.#note(error);
      this.#retryLater();
      this.#listener.failed(this.problem);
      return;
    }
    this.#current = client;
    this.#living.add(client);
    client.on('error', (error) => this.#failed(client, error));
    client.once('ready', () => this.#opened(client));
    client.once('end', () => this.#ended(client));
    // ioredis limits TCP only: a server that accepts and then says nothing would never be left.
    this.#timer = setTimeout(
      () =>
        this.drop(
          'the server accepted the connection but did not answer, or is still loading its data',
        ),
      CONNECT_TIMEOUT_MS,
    );
    client.connect().catch((error: unknown) => this.#failed(client, error));
  }

  #failed(client: Redis, error: unknown): void {
    if (client !== this.#current) return;
    this.#note(error);
    // ioredis goes on after some refusals (a SELECT, in version 5 also an AUTH), in the wrong database or as another user.
    if (!this.#ready) this.drop(this.problem);
  }

  #opened(client: Redis): void {
    if (client !== this.#current || client.status !== 'ready' || this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#ready = true;
    this.#failures = 0;
    this.problem = 'the connection was closed';
    this.#listener.opened(client);
  }

  #ended(client: Redis): void {
    this.#living.delete(client);
    this.#lost(client);
    if (this.#living.size === 0) this.#allEnded?.();
  }

  #lost(client: Redis): void {
    if (client !== this.#current) return;
    this.#current = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const wasReady = this.#ready;
    this.#ready = false;
    if (!this.#closed) this.#retryLater();
    if (wasReady) this.#listener.closed(this.problem);
    else if (!this.#closed) this.#listener.failed(this.problem);
  }

  #retryLater(): void {
    const longest = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 10);
    this.#timer = setTimeout(() => this.#connect(), longest * (0.5 + Math.random() / 2));
  }

  #note(error: unknown): void {
    const message = errorMessage(error);
    if (!this.#closed && message !== 'Connection is closed.') {
      this.problem = this.#source.conceal(message);
    }
  }
}
