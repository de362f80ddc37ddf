import type { Environment, TimerHandle } from '../environment.ts';

/** Something that happens at a time unless it is cancelled first, which is the rule: so cancelling must cost nothing. */
export abstract class Deadline {
  /** Set while it is waiting; for {@link Deadlines} only. */
  line: DeadlineLine | undefined;
  next: Deadline | undefined;
  previous: Deadline | undefined;
  dueMs = 0;

  abstract onDeadline(): void;
}

/** All deadlines of one delay, in the order in which they end, and the one timer they share. */
interface DeadlineLine {
  first: Deadline | undefined;
  last: Deadline | undefined;
  timer: TimerHandle;
  /** Its deadlines are being called; the timer is set again after the last of them. */
  firing: boolean;
}

/**
 * Deadlines with few different delays. A timer of the platform for each would cost several times what a vote costs, and
 * nearly all are cancelled.
 */
export class Deadlines {
  readonly #environment: Environment;
  readonly #background: boolean;
  readonly #lines = new Map<number, DeadlineLine>();

  /** `background`: they don't keep the process alive. */
  constructor(environment: Environment, background: boolean) {
    this.#environment = environment;
    this.#background = background;
  }

  /** Calls `deadline.onDeadline` once, `delayMs` from `nowMs`. */
  set(deadline: Deadline, delayMs: number, nowMs: number): void {
    this.cancel(deadline);
    let line = this.#lines.get(delayMs);
    if (line === undefined) {
      line = { first: undefined, last: undefined, timer: undefined, firing: false };
      this.#lines.set(delayMs, line);
    }
    deadline.line = line;
    deadline.dueMs = nowMs + delayMs;
    deadline.previous = line.last;
    if (line.last === undefined) line.first = deadline;
    else line.last.next = deadline;
    line.last = deadline;
    if (line.timer === undefined && !line.firing) this.#arm(line, delayMs, delayMs);
  }

  cancel(deadline: Deadline): void {
    const { line, next, previous } = deadline;
    if (line === undefined) return;
    if (previous === undefined) line.first = next;
    else previous.next = next;
    if (next === undefined) line.last = previous;
    else next.previous = previous;
    deadline.line = deadline.next = deadline.previous = undefined;
  }

  /** Forgets all; nothing fires any more. */
  close(): void {
    for (const line of this.#lines.values()) this.#environment.timers.clear(line.timer);
    this.#lines.clear();
  }

  #arm(line: DeadlineLine, lineDelayMs: number, afterMs: number): void {
    line.timer = this.#environment.timers.set(
      () => this.#fire(line, lineDelayMs),
      afterMs,
      this.#background,
    );
  }

  #fire(line: DeadlineLine, lineDelayMs: number): void {
    line.timer = undefined;
    line.firing = true;
    const nowMs = this.#environment.clock.monotonicMs();
    try {
      while (line.first !== undefined && line.first.dueMs <= nowMs) {
        const deadline = line.first;
        this.cancel(deadline);
        deadline.onDeadline();
      }
    } finally {
      line.firing = false;
      this.#armAgain(line, lineDelayMs);
    }
  }

  /** The first may be due long before one that was set just now, and what was called may have taken its time. */
  #armAgain(line: DeadlineLine, lineDelayMs: number): void {
    if (this.#lines.get(lineDelayMs) !== line) return;
    if (line.first === undefined) {
      this.#lines.delete(lineDelayMs);
      return;
    }
    const nowMs = this.#environment.clock.monotonicMs();
    this.#arm(line, lineDelayMs, Math.max(1, line.first.dueMs - nowMs));
  }
}
