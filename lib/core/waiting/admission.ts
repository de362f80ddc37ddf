import { brokenInvariant } from '../errors.ts';

/** A caller that wants to try. */
export interface Candidate {
  /** Goes first: others may wait for what it holds, or nodes keep its key for a moment. */
  readonly isUrgent: boolean;
  wake(): void;
}

/** Candidates, and the first of them at once: a Set looks at all that have left before, a quarter of the time of a burst. */
class CandidateLine extends Set<Candidate> {
  /** Candidates from `#head` on in the order in which they came, with some that have left. */
  readonly #order: Candidate[] = [];
  #head = 0;

  override add(candidate: Candidate): this {
    if (!this.has(candidate)) this.#order.push(candidate);
    return super.add(candidate);
  }

  override delete(candidate: Candidate): boolean {
    const isGone = super.delete(candidate);
    // Nothing of those that have left is kept.
    if (this.size === 0) this.#head = this.#order.length = 0;
    return isGone;
  }

  get first(): Candidate | undefined {
    const order = this.#order;
    while (this.#head < order.length && !this.has(order[this.#head]!)) this.#head += 1;
    if (this.#head * 2 > order.length) this.#head -= order.splice(0, this.#head).length;
    return order[this.#head];
  }
}

/**
 * Limits the tries under way. Thousands at once would only wait in the queues of the servers, and their answers here, until
 * all of them time out. A slot is taken for the time of one try; extensions, releases and joins need none, so what holds a lock
 * never waits for one.
 */
export class Admission {
  readonly limit: number;
  readonly #urgent = new CandidateLine();
  readonly #others = new CandidateLine();
  #inUse = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Takes a slot, or stands in line for one: `wake` is called when it is there. */
  enter(candidate: Candidate): boolean {
    if (this.#inUse < this.limit && this.#urgent.size + this.#others.size === 0) {
      this.#inUse += 1;
      return true;
    }
    const { isUrgent } = candidate;
    if (isUrgent) this.#others.delete(candidate);
    (isUrgent ? this.#urgent : this.#others).add(candidate);
    const isNext = this.#inUse < this.limit && this.#next === candidate;
    if (!isNext) return false;
    this.#inUse += 1;
    this.withdraw(candidate);
    return true;
  }

  /** Withdraws a candidate that does not want to try at the moment: the next one may. */
  withdraw(candidate: Candidate): void {
    const isGone = this.#others.delete(candidate);
    if (this.#urgent.delete(candidate) || isGone) this.#wakeNext();
  }

  /** A try has ended. */
  exit(): void {
    this.#inUse -= 1;
    if (this.#inUse < 0) throw brokenInvariant('a try gives back one slot');
    if (this.#urgent.size + this.#others.size > 0) this.#wakeNext();
  }

  isWaiting(candidate: Candidate): boolean {
    return this.#others.has(candidate) || this.#urgent.has(candidate);
  }

  get #next(): Candidate | undefined {
    return this.#urgent.first ?? this.#others.first;
  }

  #wakeNext(): void {
    if (this.#inUse < this.limit) this.#next?.wake();
  }
}
