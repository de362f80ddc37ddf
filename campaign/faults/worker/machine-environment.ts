import type { Environment } from '../../../lib/core/environment.ts';
import { systemEnvironment } from '../../../lib/core/system-environment.ts';
import { historyNow } from '../../../test/history/lock-history.ts';

const REMEMBERED_ATTEMPTS = 1_000;

/**
 * The real environment on the clock of the history: what the algorithm measures is comparable between processes as it is.
 *
 * It also notes when each attempt drew its holder, which is before its first message, and can hold the clock still while
 * a lock is asked, so that answer and time belong together even if the process is stopped in between.
 */
export class MachineEnvironment implements Environment {
  readonly timers = systemEnvironment.timers;
  readonly afterPoll = (callback: () => void) => systemEnvironment.afterPoll(callback);
  readonly endOfTick = (callback: () => void) => systemEnvironment.endOfTick(callback);
  readonly atExit = (callback: () => void) => systemEnvironment.atExit(callback);
  readonly clock: Environment['clock'] = {
    ...systemEnvironment.clock,
    monotonicMs: () => this.now(),
    // All clocks stand still together, or time since the start would look like a suspend.
    sinceBootMs: () => systemEnvironment.clock.sinceBootMs() + this.now() - historyNow(),
    wallMicros: () =>
      systemEnvironment.clock.wallMicros() + Math.floor((this.now() - historyNow()) * 1_000),
  };
  readonly random: Environment['random'] = {
    ...systemEnvironment.random,
    holder: (mark) => this.#noteAttempt(systemEnvironment.random.holder(mark)),
  };
  readonly #attempts = new Map<string, number>();
  #stillAt: number | undefined;

  now(): number {
    return this.#stillAt ?? historyNow();
  }

  /** When the attempt with this holder began; undefined when the holder was not drawn here. */
  attemptStartedAt(holder: string): number | undefined {
    return this.#attempts.get(holder);
  }

  /** The answer of `ask` when the clock stands at `at`. */
  still<Answer>(at: number, ask: () => Answer): Answer {
    this.#stillAt = at;
    try {
      return ask();
    } finally {
      this.#stillAt = undefined;
    }
  }

  #noteAttempt(holder: string): string {
    this.#attempts.set(holder, this.now());
    const [oldest] = this.#attempts.keys();
    if (this.#attempts.size > REMEMBERED_ATTEMPTS) this.#attempts.delete(oldest!);
    return holder;
  }
}
