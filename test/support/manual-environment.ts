import type {
  Clock,
  Environment,
  Random,
  TimerHandle,
  Timers,
} from '../../lib/core/environment.ts';
import { inModuleContext } from '../../lib/core/system-environment.ts';

// They are taken now, so that a test's fake timers can't replace them.
const realSetImmediate = setImmediate;
const nextTick = process.nextTick.bind(process);

interface ManualTimer {
  readonly atMs: number;
  readonly callback: () => void;
}

export interface ManualEnvironmentOptions {
  /** The seed of the random numbers and holders. @default 1 */
  readonly seed?: number;
  /** Wall clock at the start, microseconds since the epoch. @default some day in 2026 */
  readonly wallMicros?: number;
}

/** Time moves only by `advance`, timers fire in order, and chance follows a seed: the whole core, deterministic. */
export class ManualEnvironment implements Environment {
  readonly clock: Clock = this.#clock(0);
  readonly timers: Timers = {
    set: (callback, delayMs) => this.#set(callback, delayMs),
    clear: (handle) => this.#clear(handle),
  };
  readonly random: Random;
  readonly afterPoll = (callback: () => void): void => {
    this.#pendingTurns += 1;
    realSetImmediate(() => this.#turn(callback));
  };
  /** The number of callbacks that wait for the end of the process. */
  exitCallbacks = 0;
  readonly atExit = () => {
    this.exitCallbacks += 1;
    return () => void (this.exitCallbacks -= 1);
  };

  readonly endOfTick = (callback: () => void): void => {
    this.#pendingTurns += 1;
    void Promise.resolve().then(() => nextTick(() => this.#turn(callback)));
  };
  #nowMs = 0;
  #suspendedMs = 0;
  #pendingTurns = 0;
  #wallOffsetMicros: number;
  /** The timers in firing order. */
  readonly #pending: ManualTimer[] = [];

  constructor(options: ManualEnvironmentOptions = {}) {
    this.#wallOffsetMicros = options.wallMicros ?? 1_790_000_000_000_000;
    this.random = seededRandom(options.seed ?? 1);
  }

  /** The number of timers that are set: 0 after everything was closed. */
  get pendingTimers(): number {
    return this.#pending.length;
  }

  /** Lets everything run that needs no time. */
  async flush(): Promise<void> {
    do await new Promise<void>((resolve) => realSetImmediate(resolve));
    while (this.#pendingTurns > 0);
  }

  /** Lets so much time pass; every timer fires at its own time, and what it started runs before the next one. */
  async advance(durationMs: number): Promise<void> {
    const untilMs = this.#nowMs + durationMs;
    await this.flush();
    while (this.#pending[0] !== undefined && this.#pending[0].atMs <= untilMs)
      await this.#fireNext();
    this.#nowMs = untilMs;
  }

  /** Time passes and nothing runs, as when the event loop is blocked; late timers fire afterwards. */
  skip(durationMs: number): void {
    this.#nowMs += durationMs;
  }

  /** The system sleeps: the wall clock and the time since boot go on, the monotonic clock and timers do not. */
  suspend(durationMs: number): void {
    this.#suspendedMs += durationMs;
    this.shiftWallClock(durationMs);
  }

  /** Lets time pass until `promise` is settled, and returns its outcome. Fails after `limitMs`, or when nothing can happen any more. */
  async settle<T>(promise: Promise<T>, limitMs = 600_000): Promise<T> {
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    promise.then(mark, mark);
    const untilMs = this.#nowMs + limitMs;
    await this.flush();
    while (!settled) {
      const next = this.#pending[0];
      if (next === undefined) throw new Error('The promise can never settle: no timer is set.');
      if (next.atMs > untilMs) throw new Error(`The promise did not settle within ${limitMs} ms.`);
      await this.#fireNext();
    }
    return promise;
  }

  /** The wall clock jumps; the monotonic one does not notice. */
  shiftWallClock(deltaMs: number): void {
    this.#wallOffsetMicros += deltaMs * 1000;
  }

  /** A further process at the same time: shares clocks and timers, has its own chance and its own wall clock error. */
  process(options: { readonly seed: number; readonly wallErrorMs?: number }): Environment {
    return {
      clock: this.#clock((options.wallErrorMs ?? 0) * 1000),
      timers: this.timers,
      random: seededRandom(options.seed),
      afterPoll: this.afterPoll,
      endOfTick: this.endOfTick,
      atExit: this.atExit,
    };
  }

  #clock(errorMicros: number): Clock {
    const wallMicros = (): number => this.#wallMicros() + errorMicros;
    return {
      monotonicMs: () => this.#nowMs,
      wallMicros,
      sinceBootMs: () => Math.floor((this.#nowMs + this.#suspendedMs) / 10) * 10,
    };
  }

  #turn(callback: () => void): void {
    this.#pendingTurns -= 1;
    inModuleContext(callback);
  }

  #wallMicros(): number {
    return this.#wallOffsetMicros + Math.floor(this.#nowMs * 1000);
  }

  #set(callback: () => void, delayMs: number): TimerHandle {
    const timer: ManualTimer = {
      atMs: this.#nowMs + Math.max(0, Number.isNaN(delayMs) ? 0 : delayMs),
      callback,
    };
    const index = this.#pending.findIndex((other) => other.atMs > timer.atMs);
    this.#pending.splice(index === -1 ? this.#pending.length : index, 0, timer);
    return timer;
  }

  #clear(handle: TimerHandle): void {
    const index = this.#pending.indexOf(handle as ManualTimer);
    if (index !== -1) this.#pending.splice(index, 1);
  }

  async #fireNext(): Promise<void> {
    const timer = this.#pending.shift()!;
    this.#nowMs = Math.max(this.#nowMs, timer.atMs);
    inModuleContext(timer.callback);
    await this.flush();
  }
}

/** mulberry32 for jitter; holders count up, so that they never repeat within one seed. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  let holders = 0;
  return {
    fraction: () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
    },
    mark: () => seed.toString(36).padStart(8, '0'),
    holder: (mark) => `${mark}-${(++holders).toString(36)}`.padEnd(24, '.'),
  };
}
