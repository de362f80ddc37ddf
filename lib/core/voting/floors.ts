import type { Clock } from '../environment.ts';

const MOST_FLOORS = 4_096;

/**
 * The highest floors that nodes, or a resource, reported ahead of our clock, and the ballots above them. What it forgets costs a
 * round trip, never safety, because nodes refuse low ballots.
 */
export class Floors {
  readonly #clock: Clock;
  /** By key, in microseconds; the one that was seen first comes first. */
  readonly #floors = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The ballot of a new attempt: never the same number twice while it is ahead of the clock. */
  nextBallot(keys: readonly string[]): number {
    const now = this.#clock.wallMicros();
    let ballot = now;
    for (const key of keys) ballot = Math.max(ballot, (this.#floors.get(key) ?? 0) + 1);
    if (ballot > now) this.raise(keys, ballot);
    return ballot;
  }

  /** This number was seen under these keys: the next ballots are above it. */
  raise(keys: readonly string[], floor: number): void {
    if (floor < this.#clock.wallMicros()) return;
    for (const key of keys) this.#floors.set(key, Math.max(this.#floors.get(key) ?? 0, floor));
    for (const oldest of this.#floors.keys()) {
      if (this.#floors.size <= MOST_FLOORS) return;
      this.#floors.delete(oldest);
    }
  }
}
