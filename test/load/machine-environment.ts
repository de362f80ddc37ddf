import type { Environment } from '../../lib/core/environment.ts';
import { systemEnvironment } from '../../lib/core/system-environment.ts';
import { historyNow } from '../history/lock-history.ts';

const REMEMBERED_ATTEMPTS = 1_000;

/**
 * The real environment on the clock of the history: what the algorithm measures is comparable between processes as it is.
 *
 * It also notes when each attempt drew its holder, which is before its first message, and can hold the clock still while
 * a lock is asked, so that answer and time belong together even if the process is stopped in between.
 */
export class MachineEnvironment implements Environment {
  readonly timers = systemEnvironment.timers;
  readonly clock: Environment['clock'];
  readonly random: Environment['random'];
  readonly #attempts = new Map<string, number>();
  #stillAt: number | undefined;

  /** `wallSkewMs`: how wrong the wall clock of this process is. */
  constructor(wallSkewMs: number) {
    const { clock, random } = systemEnvironment;
    this.clock = {
      monotonicMs: () => this.now(),
      wallMicros: () => clock.wallMicros() + Math.round(wallSkewMs * 1_000),
    };
    this.random = {
      fraction: () => random.fraction(),
      holder: () => {
        const holder = random.holder();
        this.#attempts.set(holder, this.now());
        const [oldest] = this.#attempts.keys();
        if (this.#attempts.size > REMEMBERED_ATTEMPTS) this.#attempts.delete(oldest!);
        return holder;
      },
    };
  }

  now(): number {
    return this.#stillAt ?? historyNow();
  }

  /** When the attempt with this holder began; undefined when the holder was not drawn here. */
  attemptStartedAt(holder: string): number | undefined {
    return this.#attempts.get(holder);
  }

  /** What `ask` sees when the clock stands at `at`. */
  still<Answer>(at: number, ask: () => Answer): Answer {
    this.#stillAt = at;
    try {
      return ask();
    } finally {
      this.#stillAt = undefined;
    }
  }
}
