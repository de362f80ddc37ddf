export interface Clock {
  /** Milliseconds, with fraction, since some fixed instant. Never goes back, whatever happens to the wall clock. */
  monotonicMs(): number;
  /** Microseconds since the Unix epoch, an integer. Only for proposing a token: it may jump, and safety never rests on it. */
  wallMicros(): number;
  /** Milliseconds since the system started, also those in which it was suspended; in coarse steps, and more expensive to read. */
  sinceBootMs(): number;
}

export type TimerHandle = unknown;

export interface Timers {
  /** `background`: does not keep the process alive by itself, because no caller awaits it. @default false */
  set(callback: () => void, delayMs: number, background?: boolean): TimerHandle;
  clear(handle: TimerHandle): void;
}

export interface Random {
  /** Uniform in [0, 1): jitter. */
  fraction(): number;
  /** The mark of a service: eight characters, which another one hardly ever has. */
  mark(): string;
  /** Identity of a holder: the mark of its service, and 96 bits from a cryptographic source, never repeated. */
  holder(mark: string): string;
}

/**
 * Time, chance and the turns of the event loop are arguments, so that the whole core can run in a deterministic simulation.
 *
 * Callbacks never run in the async context of the call that set them: that call may belong to another request.
 */
export interface Environment {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  /** Calls once, after the sockets of this process were read next: what has arrived meanwhile is known then. */
  afterPoll(callback: () => void): void;
  /** Calls once, after the promise reactions of the present callback, before anything else happens. */
  endOfTick(callback: () => void): void;
  /** Calls when this process ends, as long as it was not taken back by what is returned. */
  atExit(callback: () => void): () => void;
}
