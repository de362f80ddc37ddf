import type { TimerHandle } from '../../core/environment.ts';
import { systemEnvironment } from '../../core/system-environment.ts';

/** Silence after which a PING asks for life; give or take a quarter, so that clients do not ask in step. */
const PING_AFTER_MS = 10_000;
/** Silence is counted in beats; so many make the limit. A late beat counts once, because we did not read meanwhile. */
const BEATS = 4;

const { timers, random } = systemEnvironment;

/** Connection that is listened to. */
export interface Beating {
  /** An answer is due. */
  readonly isAsked: boolean;
  ping(): void;
  /** An answer has been due for the silence limit; called again while that lasts. */
  silent(): void;
  /** Data came after a silence. */
  spoke(): void;
}

/** Notes when something arrives on a connection, and says when an answer does not. An idle one is asked now and then. */
export class Heartbeat {
  isSilent = false;
  readonly #connection: Beating;
  readonly #beatMs: number;
  #timer: TimerHandle;
  #isResting = true;
  #hasReceived = false;
  #missedBeats = 0;

  constructor(connection: Beating, silenceLimitMs: number) {
    this.#connection = connection;
    this.#beatMs = silenceLimitMs / BEATS;
    this.#rest();
  }

  stop(): void {
    this.#isResting = false;
    timers.clear(this.#timer);
  }

  received(): void {
    this.#hasReceived = true;
    if (!this.isSilent) return;
    this.isSilent = false;
    this.#connection.spoke();
  }

  /** Notes that something was sent: the answer is due. */
  watch(): void {
    if (!this.#isResting) return;
    this.#isResting = false;
    this.#hasReceived = false;
    this.#missedBeats = 0;
    this.#wait(() => this.#beat(), this.#beatMs);
  }

  #beat(): void {
    if (!this.#connection.isAsked) return this.#rest();
    // Beats are one more than the limit has, because the answer may be due since a moment ago.
    this.#missedBeats = this.#hasReceived ? 0 : this.#missedBeats + 1;
    this.#hasReceived = false;
    this.#wait(() => this.#beat(), this.#beatMs);
    // Data that has arrived while this process did not read is there after the next poll.
    if (this.#missedBeats > BEATS) systemEnvironment.afterPoll(() => this.#doubt());
  }

  #rest(): void {
    this.#isResting = true;
    const pauseMs = PING_AFTER_MS * (0.75 + random.fraction() / 2);
    this.#wait(() => this.#connection.ping(), pauseMs);
  }

  #wait(next: () => void, delayMs: number): void {
    timers.clear(this.#timer);
    this.#timer = timers.set(next, delayMs, true);
  }

  #doubt(): void {
    if (this.#hasReceived) return;
    this.isSilent = true;
    this.#connection.silent();
  }
}
