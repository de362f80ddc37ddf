import type { LockNodeListener } from '../../core/nodes/lock-node.ts';
import { inModuleContext } from '../../core/system-environment.ts';
import { orErrorReply } from '../commands/node-failure.ts';
import type { ConnectionSource } from './connection-source.ts';
import type { RedisConnection } from './redis-connection.ts';
import { RedisLink } from './redis-link.ts';

type TurnListener = Pick<LockNodeListener, 'turn' | 'listening'>;

/** Receives the turns of one service on a connection of its own, made when it first waits. */
export class RedisSubscriber {
  readonly link: RedisLink;
  readonly #listener: TurnListener;
  #channel: string | undefined;
  #silenceLimitMs = 0;

  constructor(source: ConnectionSource, listener: TurnListener) {
    this.#listener = listener;
    this.link = new RedisLink(source, {
      opened: (connection) => this.#opened(connection),
      replaced: (connection) => this.#opened(connection),
      prove: (connection) => connection.ask((client) => client.ping()).catch(orErrorReply),
    });
  }

  /** Sets how long its connection may be silent; called before `listen`. */
  open(silenceLimitMs: number): void {
    this.#silenceLimitMs = silenceLimitMs;
  }

  listen(channel: string): void {
    this.#channel ??= channel;
    this.link.open(this.#silenceLimitMs);
  }

  close(): Promise<void> {
    return this.link.close();
  }

  #opened(connection: RedisConnection): void {
    connection.onMessage = (_channel, message) => inModuleContext(() => this.#received(message));
    connection
      .ask((client) => client.subscribe(this.#channel!))
      .then(() => this.#listener.listening())
      // Callers of users without the right find their turn when they ask again.
      .catch(() => undefined);
  }

  /** Anyone may publish anything. */
  #received(message: string): void {
    const [, keptMs, lockName] = /^(\d{1,6}) (.+)$/s.exec(message) ?? [];
    if (lockName !== undefined) this.#listener.turn(lockName, Number(keptMs));
  }
}
