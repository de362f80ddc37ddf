import type { Environment, TimerHandle } from '../../core/environment.ts';
import { inModuleContext } from '../../core/system-environment.ts';
import { errorMessage, isErrorReply } from '../commands/node-failure.ts';
import type { WireSource } from '../wire.ts';
import { RedisConnection, type ConnectionOwner } from './redis-connection.ts';

const FIRST_RETRY_MS = 50;
/** A connection that could not be made is tried again within this. */
export const LAST_RETRY_MS = 1_000;
/** Sockets close within milliseconds; should one not say so, no caller waits longer than this. */
const CLOSE_TIMEOUT_MS = 1_000;

export interface RedisLinkListener {
  opened(connection: RedisConnection): void;
  /** The second connection takes over, while answers are due on the first one. */
  replaced?(connection: RedisConnection): void;
  /** Once for each `opened`. */
  closed?(message: string): void;
  /** An attempt to connect came to nothing. */
  failed?(message: string): void;
  /** The connection is silent, and a second one did not take its place. Repeated while that lasts. */
  stalled?(): void;
  /** The connection was silent, and is no longer. */
  spoke?(): void;
  /** Resolves when the server answered on this second connection, rejects when it refused. */
  prove(connection: RedisConnection): Promise<unknown>;
  /** The server says that it is no primary. */
  demoted?(message: string): void;
  message?(channel: string, text: string): void;
}

/**
 * A connection that is made again when it is lost. It is in one of three states:
 * - *one*: `#current` carries everything, or is being made;
 * - *doubted*: `#current` has become silent, or is to be renewed. `#successor` is made beside it, and carries nothing but its proof.
 *   When the server stalls, neither is answered: it will execute what the first one carried, so nothing is given up;
 * - *replacing*: the second one was answered. It is `#current` now, and is held back until the first one has answered everything, or
 *   is given up because it still is silent.
 */
export class RedisLink implements ConnectionOwner {
  readonly #source: WireSource;
  readonly #environment: Environment;
  readonly #listener: RedisLinkListener;
  /** Problem of the last attempt to connect that ended. */
  #problem: string | undefined;
  /** Undefined until it is opened. */
  #silenceLimitMs: number | undefined;
  #current: RedisConnection | undefined;
  #successor: RedisConnection | undefined;
  /** Connections that have not ended, also those given up. */
  readonly #open = new Set<RedisConnection>();
  #failures = 0;
  #timer: TimerHandle;
  #isClosed = false;
  #holdsProcess = true;

  constructor(source: WireSource, environment: Environment, listener: RedisLinkListener) {
    this.#source = source;
    this.#environment = environment;
    this.#listener = listener;
  }

  /** The connection, when commands can be written. */
  get connection(): RedisConnection | undefined {
    return this.#current?.heartbeat.hasStarted ? this.#current : undefined;
  }

  /** Reason why there is no connection. */
  get problem(): string {
    return this.#problem ?? this.#current?.problem ?? 'not connected yet';
  }

  /** While there is a second connection no third one is made: it would write later requests before one that is held back does. */
  get #hasSecond(): boolean {
    return this.#successor !== undefined || this.#current?.isHeldBack === true;
  }

  /** Whether connections, and the pauses before the next one, keep this process alive. */
  hold(isHeld: boolean): void {
    this.#holdsProcess = isHeld;
    if (isHeld) this.connection?.hold(true);
  }

  /** Starts connecting, unless it has. */
  open(silenceLimitMs: number): void {
    if (this.#silenceLimitMs !== undefined || this.#isClosed) return;
    this.#silenceLimitMs = silenceLimitMs;
    inModuleContext(() => this.#connect());
  }

  /** Resolves when every socket is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { timers } = this.#environment;
    timers.clear(this.#timer);
    for (const connection of this.#open) connection.close();
    await new Promise<void>((resolve) => {
      const timer = timers.set(resolve, CLOSE_TIMEOUT_MS);
      void Promise.all(Array.from(this.#open, ({ closed }) => closed)).then(() => {
        timers.clear(timer);
        resolve();
      });
    });
    this.#current?.drop('closed');
    this.#problem = 'closed';
  }

  /** Makes a second connection, which takes over; at once where it is answered before the present one. */
  renew(): void {
    const { connection } = this;
    if (connection === undefined || this.#hasSecond) return;
    connection.heartbeat.isSilent = true;
    connection.ping();
    inModuleContext(() => this.#connect(true));
  }

  ready(connection: RedisConnection): void {
    if (!this.#holdsProcess) connection.hold(false);
    if (connection === this.#successor) return this.#prove(connection);
    this.#failures = 0;
    this.#problem = undefined;
    this.#listener.opened(connection);
  }

  ended(connection: RedisConnection): void {
    if (connection === this.#successor) {
      this.#successor = undefined;
      this.#connectLater();
    }
    if (connection !== this.#current) return;
    this.#current = undefined;
    this.#problem = connection.problem;
    const successor = this.#successor;
    this.#successor = undefined;
    successor?.drop(this.problem);
    this.#connectLater();
    if (connection.heartbeat.hasStarted) this.#listener.closed?.(this.problem);
    else if (!this.#isClosed) this.#listener.failed?.(this.problem);
  }

  silent(connection: RedisConnection): void {
    if (connection !== this.#current) connection.drop('no answer');
    else if (!this.#hasSecond && this.#timer === undefined) this.#connect();
    else this.#listener.stalled?.();
  }

  spoke(connection: RedisConnection): void {
    if (connection !== this.#current) return;
    this.#failures = 0;
    if (this.#successor?.isRenewal === false) this.#successor.drop('not needed');
    this.#listener.spoke?.();
  }

  demoted(message: string): void {
    this.#listener.demoted?.(message);
  }

  message(channel: string, text: string): void {
    this.#listener.message?.(channel, text);
  }

  /** The first connection, or a second one while the first is silent. */
  #connect(isRenewal = false): void {
    this.#environment.timers.clear(this.#timer);
    this.#timer = undefined;
    if (this.#isClosed || this.#current?.heartbeat.isSilent === false) return;
    let connection: RedisConnection;
    try {
      connection = new RedisConnection(
        this.#source,
        this,
        this.#silenceLimitMs!,
        this.#environment,
      );
    } catch (error) {
      this.#problem = this.#source.conceal(errorMessage(error));
      this.#connectLater();
      this.#listener.failed?.(this.problem);
      return;
    }
    connection.isRenewal = isRenewal;
    if (this.#current === undefined) this.#current = connection;
    else this.#successor = connection;
    this.#open.add(connection);
    void connection.closed.then(() => this.#open.delete(connection));
  }

  #prove(successor: RedisConnection): void {
    this.#listener.prove(successor).then(
      // Data that the first one has received is known after the next poll.
      () => this.#environment.afterPoll(() => void this.#replaceBy(successor)),
      () => successor.drop('refused'),
    );
  }

  async #replaceBy(successor: RedisConnection): Promise<void> {
    const first = this.#current;
    if (successor !== this.#successor || first === undefined || !successor.isUsable) return;
    this.#successor = undefined;
    this.#current = successor;
    this.#failures = 0;
    const isWhole = !first.heartbeat.isSilent && (await this.#lastAnswerOf(first, successor));
    if (first.heartbeat.isSilent)
      first.drop('given up: it was silent, and a second connection was answered');
    const isSameStart = successor.voting?.start === first.voting?.start;
    if (this.#current === successor && !(isWhole && isSameStart)) {
      this.#listener.closed?.(
        isWhole
          ? 'another server answers at its address, or it was a replica meanwhile'
          : first.problem,
      );
      this.#problem = undefined;
      if (!this.#isClosed) this.#listener.opened(successor);
    }
    successor.isHeldBack = false;
    successor.flush();
    first.close();
  }

  /** Resolves to whether the first one has answered everything. Meanwhile the other collects: a release must not overtake its vote. */
  #lastAnswerOf(first: RedisConnection, successor: RedisConnection): Promise<boolean> {
    successor.isHeldBack = true;
    this.#listener.replaced?.(successor);
    return first.ask('ping').then(() => true, isErrorReply);
  }

  #connectLater(): void {
    if (this.#isClosed) return;
    const longest = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 10);
    const { timers, random } = this.#environment;
    timers.clear(this.#timer);
    const pauseMs = longest * (0.5 + random.fraction() / 2);
    this.#timer = timers.set(() => this.#connect(), pauseMs, !this.#holdsProcess);
  }
}
