import type { ConnectionSource } from './connection-source.ts';
import type { RedisConnection } from './redis-connection.ts';
import { isErrorReply, orErrorReply } from '../commands/node-failure.ts';
import { inModuleContext } from '../../core/system-environment.ts';
import { RedisLink } from './redis-link.ts';

/** With so many names in one command ioredis needs no more stack than it has, and the server answers in between. */
const NAMES_PER_COMMAND = 1_000;

/** What a subscriber reports of the names that are watched. */
export interface WatchListener {
  /** A release was published, by `holder`; `null` when a watch became active. */
  hint(lockName: string, holder: string | null): void;
  /** The server refused, for want of a right. */
  watchRefused(lockName: string): void;
}

/** Receives word of releases on a connection of its own, made at the first watch. */
export class RedisSubscriber {
  readonly link: RedisLink;
  readonly #listener: WatchListener;
  readonly #watched = new Set<string>();
  #silenceLimitMs = 0;
  #isClosed = false;

  constructor(source: ConnectionSource, listener: WatchListener) {
    this.#listener = listener;
    this.link = new RedisLink(source, {
      opened: (connection) => this.#opened(connection),
      replaced: (connection) => this.#opened(connection),
      prove: (connection) => connection.ask((client) => client.ping()).catch(orErrorReply),
    });
  }

  /** Before the first watch. */
  open(silenceLimitMs: number): void {
    this.#silenceLimitMs = silenceLimitMs;
  }

  watch(lockName: string): void {
    if (this.#isClosed || this.#watched.has(lockName)) return;
    this.#watched.add(lockName);
    this.link.open(this.#silenceLimitMs);
    const { connection } = this.link;
    if (connection !== undefined) inModuleContext(() => this.#subscribe(connection, [lockName]));
  }

  unwatch(lockName: string): void {
    if (!this.#watched.delete(lockName)) return;
    const reply = this.link.connection?.ask((client) => client.unsubscribe(lockName));
    reply?.catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watched.clear();
    await this.link.close();
  }

  #opened(connection: RedisConnection): void {
    connection.onMessage = (lockName, holder) =>
      inModuleContext(() => this.#received(lockName, holder));
    const names = [...this.#watched];
    for (let at = 0; at < names.length; at += NAMES_PER_COMMAND)
      this.#subscribe(connection, names.slice(at, at + NAMES_PER_COMMAND));
  }

  #subscribe(connection: RedisConnection, lockNames: string[]): void {
    connection
      .ask((client) => client.subscribe(...lockNames))
      .then(
        () => {
          for (const lockName of lockNames) this.#received(lockName, null);
        },
        (error: unknown) => {
          if (!isErrorReply(error)) return;
          for (const lockName of lockNames)
            if (this.#watched.has(lockName)) this.#listener.watchRefused(lockName);
        },
      );
  }

  #received(lockName: string, holder: string | null): void {
    if (this.#watched.has(lockName)) this.#listener.hint(lockName, holder);
  }
}
