/** Event at an instant of virtual time. */
export interface WorldEvent {
  readonly atMs: number;
  readonly order: number;
  action: (() => void) | undefined;
}

/**
 * Virtual time: a queue of events, and nothing else moves it. Events of one instant happen in the order in which they
 * were planned, so a run depends on its seed alone.
 *
 * After an event every promise reaction that it caused runs before the next event: a callback given to `process.nextTick`
 * is called only when the microtask queue is empty, however long the chain of promises. Then come the callbacks of
 * `endOfTick`, and what those cause.
 */
export class World {
  /** True time, ms since the start of the run. */
  nowMs = 0;
  /** Promise reactions may be waiting. */
  dirty = false;
  events = 0;
  readonly #heap: WorldEvent[] = [];
  readonly #ends: (() => void)[] = [];
  #order = 0;

  /** Calls after the promise reactions of the present event, before the next one. */
  endOfTick(callback: () => void): void {
    this.dirty = true;
    this.#ends.push(callback);
  }

  at(atMs: number, action: () => void): WorldEvent {
    const event: WorldEvent = { atMs: Math.max(atMs, this.nowMs), order: this.#order++, action };
    this.#push(event);
    return event;
  }

  after(delayMs: number, action: () => void): WorldEvent {
    return this.at(this.nowMs + delayMs, action);
  }

  cancel(event: WorldEvent): void {
    event.action = undefined;
  }

  /** Moves an event to another time, and returns the event that stands for it from now on. */
  move(event: WorldEvent, atMs: number): WorldEvent {
    const { action } = event;
    this.cancel(event);
    return this.at(atMs, () => action?.());
  }

  /** Lets everything happen up to `untilMs`. */
  async runUntil(untilMs: number): Promise<void> {
    await this.#drain();
    for (let next = this.#heap[0]; next !== undefined && next.atMs <= untilMs; next = this.#heap[0])
      await this.#happen();
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  /** Lets everything happen until `condition` holds. False when it doesn't hold at `limitMs`. */
  async runWhile(condition: () => boolean, limitMs: number): Promise<boolean> {
    await this.#drain();
    while (condition()) {
      const next = this.#heap[0];
      if (next === undefined || next.atMs > limitMs) return false;
      await this.#happen();
    }
    return true;
  }

  async #happen(): Promise<void> {
    const { atMs, action } = this.#pop();
    if (action === undefined) return;
    this.nowMs = atMs;
    this.events += 1;
    action();
    if (this.dirty) await this.#drain();
  }

  async #drain(): Promise<void> {
    do {
      this.dirty = false;
      await new Promise<void>((resolve) => process.nextTick(resolve));
      for (const end of this.#ends.splice(0)) end();
    } while (this.dirty || this.#ends.length > 0);
  }

  #push(event: WorldEvent): void {
    const heap = this.#heap;
    let index = heap.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): WorldEvent {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, last)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(a: WorldEvent, b: WorldEvent): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
