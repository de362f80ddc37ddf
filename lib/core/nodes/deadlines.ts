import type { Environment, TimerHandle } from '../environment.ts';

/** Lines that wait for answers and fire later than this were late because the process did not read. */
export const LATE_MS = 10;

/** So many delays keep their timer when nothing waits for it any more. */
const MOST_UNUSED_LINES = 64;

/** So many of those that may come early are called in one turn of the event loop: answers are read between them. */
const MOST_EARLY = 256;

/** Something that happens at a time unless it is cancelled first, which is the rule: so cancelling must cost nothing. */
export abstract class Deadline {
  /** Set while it is waiting; for {@link Deadlines} only. */
  line: DeadlineLine | undefined = undefined;
  next: Deadline | undefined = undefined;
  previous: Deadline | undefined = undefined;
  dueMs = 0;
  /** It may be called this much before it is due, or an eighth of its delay, together with another one of that delay. */
  earlyMs = 0;

  abstract onDeadline(): void;
}

/** A deadline that calls a function. */
export class Alarm extends Deadline {
  readonly onDeadline: () => void;

  constructor(onDeadline: () => void) {
    super();
    this.onDeadline = onDeadline;
  }
}

/** All deadlines of one delay, in the order in which they end, and the one timer they share. */
interface DeadlineLine {
  readonly delayMs: number;
  first: Deadline | undefined;
  last: Deadline | undefined;
  /** Was set latest: who sets themselves again do so in the order in which they began. */
  latest: Deadline | undefined;
  timer: TimerHandle;
  /** What the timer was set for. */
  timerDueMs: number;
  /** Its deadlines are being called, or will be after the next poll; the timer is set again after the last of them. */
  firing: boolean;
}

export interface DeadlinesOptions {
  /** They don't keep the process alive. @default false */
  readonly background?: boolean;
  /**
   * They end the wait for answers. When the event loop was blocked, timers run before the sockets are read, so a line that
   * fires late is called only after the next poll: what has arrived by then is known. Exactly once, so that a loop which is
   * always late still ends its waits. @default false
   */
  readonly awaitsAnswers?: boolean;
}

/**
 * Deadlines with few different delays. A timer of the platform for each would cost several times what a vote costs, and
 * nearly all are cancelled.
 */
export class Deadlines {
  readonly #environment: Environment;
  readonly #nowMs: () => number;
  readonly #background: boolean;
  readonly #awaitsAnswers: boolean;
  readonly #lines = new Map<number, DeadlineLine>();
  /** Lines in which nothing waits. */
  #unused = 0;

  constructor(
    environment: Environment,
    nowMs: () => number,
    { background = false, awaitsAnswers = false }: DeadlinesOptions = {},
  ) {
    this.#environment = environment;
    this.#nowMs = nowMs;
    this.#background = background;
    this.#awaitsAnswers = awaitsAnswers;
  }

  /** Calls `deadline.onDeadline` once, `delayMs` after `fromMs`, which may lie before `nowMs`. */
  set(deadline: Deadline, delayMs: number, fromMs: number, nowMs = fromMs): void {
    if (deadline.line !== undefined) this.cancel(deadline);
    let line = this.#lines.get(delayMs);
    if (line === undefined) {
      line = {
        delayMs,
        first: undefined,
        last: undefined,
        latest: undefined,
        timer: undefined,
        timerDueMs: 0,
        firing: false,
      };
      this.#lines.set(delayMs, line);
    } else if (line.first === undefined) this.#unused -= 1;
    deadline.dueMs = fromMs + delayMs;
    // In order; nearly always at the end, or behind the latest.
    let before = line.last;
    if (before !== undefined && before.dueMs > deadline.dueMs) {
      before = line.latest ?? before;
      while (before.next !== undefined && before.next.dueMs <= deadline.dueMs) before = before.next;
      while (before !== undefined && before.dueMs > deadline.dueMs) before = before.previous;
    }
    const after = before === undefined ? line.first : before.next;
    line.latest = deadline;
    deadline.line = line;
    deadline.previous = before;
    deadline.next = after;
    if (before === undefined) line.first = deadline;
    else before.next = deadline;
    if (after === undefined) line.last = deadline;
    else after.previous = deadline;
    if (line.firing) return;
    if (line.timer !== undefined) {
      if (line.timerDueMs <= deadline.dueMs) return;
      this.#environment.timers.clear(line.timer);
    }
    this.#arm(line, deadline.dueMs, nowMs);
  }

  cancel(deadline: Deadline): void {
    const { line, next, previous } = deadline;
    if (line === undefined) return;
    if (line.latest === deadline) line.latest = previous ?? next;
    if (previous === undefined) line.first = next;
    else previous.next = next;
    if (next === undefined) line.last = previous;
    else next.previous = previous;
    deadline.line = deadline.next = deadline.previous = undefined;
    if (line.first !== undefined) return;
    this.#unused += 1;
    if (this.#unused > MOST_UNUSED_LINES) this.#dropUnused();
  }

  /** Waits that end at once would leave a timer for each millisecond of the longest one. */
  #dropUnused(): void {
    for (const line of Array.from(this.#lines.values())) {
      if (line.first !== undefined || line.firing) continue;
      this.#environment.timers.clear(line.timer);
      this.#drop(line);
    }
  }

  #drop({ delayMs }: DeadlineLine): void {
    this.#lines.delete(delayMs);
    this.#unused -= 1;
  }

  /** Calls what is due although its timer has not fired: time has passed that timers did not count. */
  callDue(): void {
    for (const line of Array.from(this.#lines.values())) {
      if (line.firing) continue;
      this.#environment.timers.clear(line.timer);
      this.#call(line);
    }
  }

  /** Forgets all; nothing fires any more. */
  close(): void {
    for (const line of this.#lines.values()) this.#environment.timers.clear(line.timer);
    this.#lines.clear();
  }

  #arm(line: DeadlineLine, dueMs: number, nowMs: number): void {
    const { timers } = this.#environment;
    const fire = () => this.#fire(line);
    line.timerDueMs = dueMs;
    for (let knownMs = nowMs; ; timers.clear(line.timer)) {
      line.timer = timers.set(fire, Math.max(dueMs - knownMs, 0), this.#background);
      // The process may have been stopped since the clock was read, and the timer counts only from now on.
      const stoppedMs = this.#nowMs() - knownMs;
      if (stoppedMs <= LATE_MS) return;
      knownMs += stoppedMs;
    }
  }

  #fire(line: DeadlineLine): void {
    const nowMs = this.#nowMs();
    const lateMs = nowMs - Math.min(line.timerDueMs, line.first?.dueMs ?? nowMs);
    if (!this.#awaitsAnswers || lateMs <= Math.min(LATE_MS, line.delayMs / 4)) {
      this.#call(line);
      return;
    }
    line.firing = true;
    // Something else may block between the poll and this: what becomes due meanwhile has a poll of its own.
    this.#environment.afterPoll(() => this.#call(line, nowMs));
  }

  #call(line: DeadlineLine, nowMs = this.#nowMs()): void {
    if (this.#lines.get(line.delayMs) !== line) return;
    line.timer = undefined;
    line.firing = true;
    try {
      for (let early = 0; line.first !== undefined && early < MOST_EARLY;) {
        const deadline = line.first;
        // One that sets itself again is never early enough to be called at once.
        const earlyMs = Math.min(deadline.earlyMs, line.delayMs / 8);
        if (deadline.dueMs - earlyMs > nowMs) break;
        if (earlyMs > 0) early += 1;
        this.cancel(deadline);
        deadline.onDeadline();
      }
    } finally {
      line.firing = false;
      this.#armAgain(line);
    }
  }

  /** The first may be due long before one that was set just now, and what was called may have taken its time. */
  #armAgain(line: DeadlineLine): void {
    if (this.#lines.get(line.delayMs) !== line) return;
    if (line.first === undefined) this.#drop(line);
    // A millisecond at least: a timer that came early must not be set for no time at all.
    else {
      const nowMs = this.#nowMs();
      this.#arm(line, Math.max(line.first.dueMs, nowMs + 1), nowMs);
    }
  }
}
