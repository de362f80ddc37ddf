import type { Environment, TimerHandle } from '../../core/environment.ts';

/** The time that TCP and TLS may take, and then the handshake with the server, together. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** Silence after which a PING asks for life; give or take a quarter, so that clients do not ask in step. */
const PING_AFTER_MS = 10_000;
/** Silence is counted in beats; so many make the limit. A late beat counts once, because we did not read meanwhile. */
const BEATS = 4;

export interface Beating {
  /** An answer is due. */
  readonly isAsked: boolean;
  ping(): void;
  /** Ends a connection that did not become ready in time. */
  unready(): void;
  silent(): void;
}

/** Says when no answer arrives on a connection. An idle one is asked now and then. */
export class Heartbeat {
  isSilent = false;
  /** Data has arrived since the last beat. */
  hasReceived = false;
  hasStarted = false;
  /** Nothing is due. */
  isResting = false;
  readonly #connection: Beating;
  readonly #environment: Environment;
  readonly #beatMs: number;
  #timer: TimerHandle;
  #missedBeats = 0;

  constructor(connection: Beating, silenceLimitMs: number, environment: Environment) {
    this.#connection = connection;
    this.#environment = environment;
    this.#beatMs = silenceLimitMs / BEATS;
    // Without it a server that accepts and then says nothing would never be left.
    const unready = () => connection.unready();
    this.#timer = environment.timers.set(unready, CONNECT_TIMEOUT_MS);
  }

  /** Call when the connection is ready. */
  start(): void {
    this.hasStarted = true;
    this.#rest();
  }

  stop(): void {
    this.isResting = false;
    this.#environment.timers.clear(this.#timer);
  }

  /** Notes that something was sent while it was resting: the answer is due. */
  watch(): void {
    this.isResting = false;
    this.hasReceived = false;
    this.#missedBeats = 0;
    this.#wait(() => this.#beat(), this.#beatMs);
  }

  #beat(): void {
    if (!this.#connection.isAsked) return this.#rest();
    // Beats are one more than the limit has, because the answer may be due since a moment ago.
    this.#missedBeats = this.hasReceived ? 0 : this.#missedBeats + 1;
    this.hasReceived = false;
    this.#wait(() => this.#beat(), this.#beatMs);
    if (this.#missedBeats <= BEATS) return;
    // Data that has arrived while this process did not read is there after the next poll.
    this.#environment.afterPoll(() => {
      if (!this.hasReceived) this.#connection.silent();
    });
  }

  #rest(): void {
    this.isResting = true;
    const share = 0.75 + this.#environment.random.fraction() / 2;
    this.#wait(() => this.#connection.ping(), PING_AFTER_MS * share);
  }

  #wait(next: () => void, delayMs: number): void {
    const { timers } = this.#environment;
    timers.clear(this.#timer);
    this.#timer = timers.set(next, delayMs, true);
  }
}
