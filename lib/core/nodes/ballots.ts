import type { Clock } from '../environment.ts';

const MAX_REMEMBERED = 4_096;

/**
 * Proposes ballots: our wall clock in microseconds, or one more than the newest fence we heard of.
 *
 * What it remembers is a bounded cache: losing it costs a round trip, never safety, because nodes refuse low ballots.
 */
export class Ballots {
  readonly #clock: Clock;
  /** Fences that were ahead of our clock when we heard of them, by lock key; the others need no memory. */
  readonly #ahead = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** For the next try. Never the same number twice while it is ahead of the clock. */
  next(keys: readonly string[]): number {
    const now = this.#clock.wallMicros();
    if (this.#ahead.size === 0) return now;
    let ballot = now;
    for (const key of keys) ballot = Math.max(ballot, (this.#ahead.get(key) ?? 0) + 1);
    if (ballot > now) this.heard(keys, ballot);
    return ballot;
  }

  /** A node said that a fence of one of these keys stands at `fence`. */
  heard(keys: readonly string[], fence: number): void {
    if (fence < this.#clock.wallMicros()) return;
    for (const key of keys) {
      this.#ahead.delete(key);
      this.#ahead.set(key, fence);
    }
    for (const key of this.#ahead.keys()) {
      if (this.#ahead.size <= MAX_REMEMBERED) break;
      this.#ahead.delete(key);
    }
  }
}
