import type { Redis } from 'ioredis';
import type { ConnectionSource } from './connection-source.ts';
import { RedisConnection } from './redis-connection.ts';

/**
 * Hears of releases on a connection of its own, made at the first watch. Without it (no right to subscribe, no
 * connection) waiters only back off longer; so nothing here ever fails.
 */
export class RedisSubscriber {
  readonly #connection: RedisConnection;
  readonly #hint: (lockName: string, holder: string | null) => void;
  /** Lock name to number of watches. */
  readonly #watched = new Map<string, number>();
  #closed = false;

  constructor(source: ConnectionSource, hint: (lockName: string, holder: string | null) => void) {
    this.#hint = hint;
    this.#connection = new RedisConnection(source, {
      opened: (client) => {
        client.on('message', (lockName: string, holder: string) => this.#heard(lockName, holder));
        if (this.#watched.size > 0) this.#subscribe(client, [...this.#watched.keys()]);
      },
      closed: () => undefined,
      failed: () => undefined,
    });
  }

  watch(lockName: string): void {
    if (this.#closed) return;
    const watches = this.#watched.get(lockName) ?? 0;
    this.#watched.set(lockName, watches + 1);
    this.#connection.open();
    const { client } = this.#connection;
    if (watches === 0 && client !== undefined) this.#subscribe(client, [lockName]);
  }

  unwatch(lockName: string): void {
    const watches = this.#watched.get(lockName) ?? 0;
    if (watches > 1) {
      this.#watched.set(lockName, watches - 1);
    } else if (this.#watched.delete(lockName)) {
      this.#connection.client?.unsubscribe(lockName).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#watched.clear();
    await this.#connection.close();
  }

  #subscribe(client: Redis, lockNames: string[]): void {
    client.subscribe(...lockNames).then(
      () => {
        for (const lockName of lockNames) this.#heard(lockName, null);
      },
      () => undefined,
    );
  }

  #heard(lockName: string, holder: string | null): void {
    if (this.#watched.has(lockName)) this.#hint(lockName, holder);
  }
}
