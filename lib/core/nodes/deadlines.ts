import type { Environment, TimerHandle } from '../environment.ts';

/** Deadlines that are called later than this were late because the process did not run. */
export const LATE_MS = 10;

/** Place of a deadline that is not set. */
const NOT_SET = -1;

/** Calls at a time unless it is cancelled first, which is the rule: so cancelling must cost next to nothing. */
export abstract class Deadline {
  dueMs = 0;
  /** For {@link Deadlines} only: position in the heap, and number that orders deadlines of one moment. */
  position = NOT_SET;
  order = 0;

  get isSet(): boolean {
    return this.position !== NOT_SET;
  }

  abstract onDeadline(): void;
}

/** Deadline that calls a function. */
export class Alarm extends Deadline {
  readonly onDeadline: () => void;

  constructor(onDeadline: () => void) {
    super();
    this.onDeadline = onDeadline;
  }
}

export interface DeadlinesOptions {
  /** They don't keep the process alive. @default false */
  readonly background?: boolean;
  /**
   * They end the wait for answers. When the event loop was blocked, timers run before the sockets are read, so what is due is
   * called only after the next poll: what has arrived by then is known. Exactly once, so that a loop which is always late still
   * ends its waits. @default false
   */
  readonly awaitsAnswers?: boolean;
}

/**
 * Deadlines in a binary heap with one timer, for the first of them. A timer of the platform for each would cost several times what
 * a vote costs. The timer of a cancelled deadline stays, and is set again for the next one when it fires.
 */
export class Deadlines {
  readonly #environment: Environment;
  readonly #nowMs: () => number;
  readonly #background: boolean;
  readonly #awaitsAnswers: boolean;
  readonly #heap: Deadline[] = [];
  #orders = 0;
  #timer: TimerHandle;
  /** Time for which the timer is set. No other one is set while deadlines are called, or wait for the poll: then it is -Infinity. */
  #timerDueMs = Number.POSITIVE_INFINITY;

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

  /** Calls `deadline.onDeadline` once at `dueMs`, instead of the time for which it was set. */
  set(deadline: Deadline, dueMs: number): void {
    this.cancel(deadline);
    deadline.dueMs = dueMs;
    deadline.order = this.#orders += 1;
    this.#heap.push(deadline);
    this.#moveUp(deadline, this.#heap.length - 1);
    if (dueMs < this.#timerDueMs) this.#arm(dueMs);
  }

  cancel(deadline: Deadline): void {
    const { position } = deadline;
    if (position === NOT_SET) return;
    deadline.position = NOT_SET;
    const last = this.#heap.pop()!;
    if (last === deadline) return;
    this.#moveDown(last, position);
    this.#moveUp(last, last.position);
  }

  /** Calls what is due although the timer has not fired: time has passed that timers did not count. */
  callDue(): void {
    if (this.#timerDueMs !== Number.NEGATIVE_INFINITY) this.#call(this.#nowMs());
  }

  /** Forgets all; nothing fires any more. */
  close(): void {
    this.#environment.timers.clear(this.#timer);
    for (const deadline of this.#heap.splice(0)) deadline.position = NOT_SET;
    this.#timerDueMs = Number.POSITIVE_INFINITY;
  }

  #arm(dueMs: number): void {
    const { timers } = this.#environment;
    timers.clear(this.#timer);
    this.#timerDueMs = dueMs;
    const delayMs = Math.max(dueMs - this.#nowMs(), 0);
    this.#timer = timers.set(() => this.#fire(), delayMs, this.#background);
  }

  #fire(): void {
    const nowMs = this.#nowMs();
    if (!this.#awaitsAnswers || (this.#heap[0]?.dueMs ?? Number.POSITIVE_INFINITY) > nowMs)
      return this.#call(nowMs);
    this.#timerDueMs = Number.NEGATIVE_INFINITY;
    // Something else may block between the poll and this: what becomes due meanwhile has a poll of its own.
    this.#environment.afterPoll(() => this.#call(nowMs));
  }

  /** Calls what was due at `nowMs`. Those that are set meanwhile wait for the timer. */
  #call(nowMs: number): void {
    this.#environment.timers.clear(this.#timer);
    this.#timerDueMs = Number.NEGATIVE_INFINITY;
    const orders = this.#orders;
    const heap = this.#heap;
    try {
      for (
        let [first] = heap;
        first && first.dueMs <= nowMs && first.order <= orders;
        [first] = heap
      ) {
        this.cancel(first);
        first.onDeadline();
      }
    } finally {
      this.#timerDueMs = Number.POSITIVE_INFINITY;
      // Timers may come early: a millisecond at least, or the next one would be set for no time at all.
      if (heap[0] !== undefined) this.#arm(Math.max(heap[0].dueMs, this.#nowMs() + 1));
    }
  }

  #moveUp(deadline: Deadline, from: number): void {
    let position = from;
    for (; position > 0;) {
      const parentPosition = (position - 1) >> 1;
      const parent = this.#heap[parentPosition]!;
      if (isBefore(parent, deadline)) break;
      this.#place(parent, position);
      position = parentPosition;
    }
    this.#place(deadline, position);
  }

  #moveDown(deadline: Deadline, from: number): void {
    const heap = this.#heap;
    let position = from;
    for (;;) {
      const left = 2 * position + 1;
      const right = left + 1;
      const next = right < heap.length && isBefore(heap[right]!, heap[left]!) ? right : left;
      if (next >= heap.length || isBefore(deadline, heap[next]!)) break;
      this.#place(heap[next]!, position);
      position = next;
    }
    this.#place(deadline, position);
  }

  #place(deadline: Deadline, position: number): void {
    this.#heap[position] = deadline;
    deadline.position = position;
  }
}

function isBefore(one: Deadline, other: Deadline): boolean {
  return one.dueMs === other.dueMs ? one.order < other.order : one.dueMs < other.dueMs;
}
