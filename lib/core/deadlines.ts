import type { Clock, Environment, TimerHandle } from './environment.ts';

/** A deadline that is called later than this was late because the process did not run. */
export const LATE_MS = 10;
/** A smaller step of the wall clock against the monotonic one is drift. */
const NOTICED_STEP_MS = 20;
/** The time since boot comes in such steps. */
const BOOT_STEP_MS = 10;
/** The difference that two readings of it stay below where nothing was suspended. */
const BOOT_CLOCK_ERROR_MS = 25;

/** The time of one service: durations use nothing else. */
export class ServiceClock {
  /** The time that the system was suspended, as far as it was noticed. */
  suspendedMs = 0;
  readonly #clock: Clock;
  readonly #onMove: () => void;
  #wallAheadMs: number;
  #bootAheadMs: number;

  /** @param onMove called when a clock has moved, perhaps by a getter */
  constructor(clock: Clock, onMove: () => void) {
    this.#clock = clock;
    this.#onMove = onMove;
    this.#wallAheadMs = clock.wallMicros() / 1000 - clock.monotonicMs();
    this.#bootAheadMs = this.#leastBootAheadMs;
  }

  /** Monotonic milliseconds, with the time in which the system is known to have been suspended. */
  get nowMs(): number {
    return this.#clock.monotonicMs() + this.suspendedMs;
  }

  /**
   * {@link nowMs} after a look at the other clocks, for what must not outlive a suspend: the servers were not suspended, so
   * keys have expired meanwhile. A suspend moves the wall clock against the monotonic one, which is cheap to see; only then
   * the clock since boot, which counts suspended time on Linux, is asked.
   */
  get checkedNowMs(): number {
    const clock = this.#clock;
    const monotonicMs = clock.monotonicMs();
    const wallAheadMs = clock.wallMicros() / 1000 - monotonicMs;
    if (Math.abs(wallAheadMs - this.#wallAheadMs) > NOTICED_STEP_MS) {
      const leastMs = this.#leastBootAheadMs;
      const aheadMs = () => -clock.monotonicMs() + clock.sinceBootMs() + BOOT_STEP_MS;
      const missedMs = Math.min(aheadMs(), aheadMs()) - this.#bootAheadMs;
      if (missedMs > BOOT_CLOCK_ERROR_MS) {
        this.suspendedMs += missedMs;
        this.#bootAheadMs = leastMs;
      }
      this.#onMove();
    }
    this.#wallAheadMs = wallAheadMs;
    return this.nowMs;
  }

  /** Lead of the clock since boot: a pause between the two readings makes it shorter, and hardly comes twice in a row. */
  get #leastBootAheadMs(): number {
    const aheadMs = () => this.#clock.sinceBootMs() - this.#clock.monotonicMs();
    return Math.max(aheadMs(), aheadMs());
  }
}

/** What happens at a time unless it is cancelled before. It nearly always is, so that must cost next to nothing. */
export abstract class Deadline {
  dueMs = 0;
  /** Its place in the heap of {@link Deadlines}; -1 where it is not set. */
  position = -1;
  order = 0;

  get isSet(): boolean {
    return this.position !== -1;
  }

  abstract onDeadline(): void;
}

export class Alarm extends Deadline {
  constructor(readonly onDeadline: () => void) {
    super();
  }
}

/**
 * A heap of deadlines, with one timer for the first. The timer of one that was cancelled stays, and is set again when it fires.
 *
 * A process that was stopped for a second finds its timers due, and the answers of the servers unread in its sockets. Timers run
 * first; so one that ends a wait for answers calls what was due after the next poll, when what has arrived is known. It does not
 * matter whether the timer is late: a pause may have ended in the moment in which it was due. It does so exactly once: a process
 * that is always late still ends its waits.
 */
export class Deadlines {
  readonly #environment: Environment;
  readonly #nowMs: () => number;
  readonly #background: boolean;
  readonly #heap: Deadline[] = [];
  #orders = 0;
  #timer: TimerHandle;
  #setAtMs = 0;
  #timerDueMs = Number.POSITIVE_INFINITY;
  /** While the deadlines are called, now or after the next poll. The timer is set again after that. */
  #isFiring = false;

  /** @param background they don't keep the process alive, and end no wait for answers */
  constructor(environment: Environment, nowMs: () => number, background = false) {
    this.#environment = environment;
    this.#nowMs = nowMs;
    this.#background = background;
  }

  /** Calls `deadline.onDeadline` once, `delayMs` after `fromMs`, and no more when it was set for before. */
  set(deadline: Deadline, delayMs: number, fromMs: number): void {
    if (deadline.isSet) this.cancel(deadline);
    deadline.dueMs = fromMs + delayMs;
    deadline.order = this.#orders += 1;
    this.#place(deadline, this.#heap.push(deadline) - 1);
    if (this.#isFiring) return;
    // When the clock went back, or far beyond, fake timers of a test began or ended: what was set before them is lost.
    const isLost = fromMs < this.#setAtMs - LATE_MS || fromMs > this.#timerDueMs + LATE_MS;
    if (isLost || deadline.dueMs < this.#timerDueMs) this.#arm();
  }

  cancel(deadline: Deadline): void {
    const { position } = deadline;
    if (position === -1) return;
    deadline.position = -1;
    const last = this.#heap.pop()!;
    if (last !== deadline) this.#place(last, position);
  }

  /** Calls what is due although the timer has not fired: time has passed that timers did not count. */
  callDue(): void {
    if (!this.#isFiring) this.#call(this.#nowMs());
  }

  close(): void {
    this.#environment.timers.clear(this.#timer);
    for (const deadline of this.#heap.splice(0)) deadline.position = -1;
  }

  /** Sets the timer for the first deadline, a millisecond ahead at least: timers may come early. */
  #arm(leastMs = 0): void {
    const { timers } = this.#environment;
    timers.clear(this.#timer);
    const [first] = this.#heap;
    this.#timerDueMs = first?.dueMs ?? Number.POSITIVE_INFINITY;
    if (first === undefined) return;
    this.#setAtMs = this.#nowMs();
    const delayMs = Math.max(first.dueMs - this.#setAtMs, leastMs);
    this.#timer = timers.set(() => this.#fire(), delayMs, this.#background);
    // The process may have been stopped since the clock was read, and the timer counts only from now on.
    if (this.#nowMs() - this.#setAtMs > LATE_MS) this.#arm(leastMs);
  }

  #fire(): void {
    const nowMs = this.#nowMs();
    if (this.#background) return this.#call(nowMs);
    this.#isFiring = true;
    // A code of others may block between the poll and this: what becomes due meanwhile has a poll of its own.
    this.#environment.afterPoll(() => this.#call(nowMs));
  }

  /** Calls what was due at `nowMs`. Those that are set meanwhile wait for the timer. */
  #call(nowMs: number): void {
    this.#isFiring = true;
    const orders = this.#orders;
    try {
      for (;;) {
        const [first] = this.#heap;
        if (first === undefined || first.dueMs > nowMs || first.order > orders) break;
        this.cancel(first);
        first.onDeadline();
      }
    } finally {
      this.#isFiring = false;
      this.#arm(1);
    }
  }

  /** Moves a deadline from this place up or down to its own; what is at this place may be overwritten. */
  #place(deadline: Deadline, from: number): void {
    const heap = this.#heap;
    let position = from;
    while (position > 0) {
      const above = (position - 1) >> 1;
      if (isBefore(heap[above]!, deadline)) break;
      position = fill(heap, position, above);
    }
    for (;;) {
      let next = 2 * position + 1;
      if (next + 1 < heap.length && isBefore(heap[next + 1]!, heap[next]!)) next += 1;
      if (next >= heap.length || isBefore(deadline, heap[next]!)) break;
      position = fill(heap, position, next);
    }
    heap[position] = deadline;
    deadline.position = position;
  }
}

function fill(heap: Deadline[], position: number, from: number): number {
  heap[position] = heap[from]!;
  heap[position].position = position;
  return from;
}

function isBefore(one: Deadline, other: Deadline): boolean {
  return one.dueMs === other.dueMs ? one.order < other.order : one.dueMs < other.dueMs;
}
