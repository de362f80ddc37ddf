import { brokenInvariant } from '../invariant.ts';

/** A caller that wants to try. */
export interface Candidate {
  /** Locks held here in whose sections it was called: with one it goes first, because others may wait for what it holds. */
  readonly enclosing: readonly unknown[] | undefined;
  /** Nodes keep its key for a moment: it goes first as well. */
  readonly isCalled: boolean;
  wake(): void;
}

/**
 * Limits the tries under way. Thousands at once would only wait in the queues of the servers, and their answers here, until
 * all of them time out. A slot is taken for the time of one try; extensions, releases and joins need none, so what holds a lock
 * never waits for one.
 */
export class Admission {
  readonly #limit: number;
  readonly #urgent = new Set<Candidate>();
  readonly #others = new Set<Candidate>();
  /** Woken, with a slot kept until they have looked. */
  readonly #offered = new Set<Candidate>();
  #inUse = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes a slot, or stands in line for one: `wake` is called when it is there. */
  enter(candidate: Candidate): boolean {
    if (this.#offered.delete(candidate)) return true;
    if (this.#inUse < this.#limit && this.#others.size === 0 && this.#urgent.size === 0) {
      this.#inUse += 1;
      return true;
    }
    const isUrgent = candidate.enclosing !== undefined || candidate.isCalled;
    (isUrgent ? this.#urgent : this.#others).add(candidate);
    return false;
  }

  /** It does not want to try at the moment: gives back its place, or the slot that it was offered. */
  withdraw(candidate: Candidate): void {
    if (this.#offered.delete(candidate)) this.exit();
    else if (!this.#others.delete(candidate)) this.#urgent.delete(candidate);
  }

  /** A try has ended. */
  exit(): void {
    this.#inUse -= 1;
    if (this.#inUse < 0) throw brokenInvariant('a try gives back one slot');
    const queue = this.#urgent.size > 0 ? this.#urgent : this.#others;
    for (const next of queue) {
      queue.delete(next);
      this.#offered.add(next);
      this.#inUse += 1;
      next.wake();
      return;
    }
  }

  isWaiting(candidate: Candidate): boolean {
    return this.#others.has(candidate) || this.#urgent.has(candidate);
  }

  get limit(): number {
    return this.#limit;
  }
}
