/** Where the algorithm gets its time from. Durations use the monotonic clock only. */
export interface Clock {
  /** Milliseconds, with fraction, since some fixed instant. Never goes back, whatever happens to the wall clock. */
  monotonicMs(): number;
  /** Microseconds since the Unix epoch, an integer. Only for proposing a token: it may jump, and safety never rests on it. */
  wallMicros(): number;
}

/** A timer that was set; opaque. */
export type TimerHandle = unknown;

/** One-shot timers. */
export interface Timers {
  /** `background`: does not keep the process alive by itself, because nobody awaits it. @default false */
  set(callback: () => void, delayMs: number, background?: boolean): TimerHandle;
  clear(handle: TimerHandle): void;
}

/** Where the algorithm gets its chance from. */
export interface Random {
  /** Uniform in [0, 1): jitter. */
  fraction(): number;
  /** A holder nonce: at least 128 bits from a cryptographic source, never repeated. */
  nonce(): string;
}

/** Time and chance are arguments, so that the whole core can run in a deterministic simulation. */
export interface Environment {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
}
