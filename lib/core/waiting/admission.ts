import { brokenInvariant } from '../errors.ts';
import type { SharedByLocks } from '../holding/key-lock.ts';
import type { Floors } from '../voting/floors.ts';
import type { KnownProcesses } from '../voting/known-processes.ts';
import type { PermitNumbers } from '../voting/permit-numbers.ts';
import type { Keys } from './keys.ts';

/** The parts that all callers and locks of one service share. */
export interface SharedByCallers extends SharedByLocks {
  readonly keys: Keys;
  readonly floors: Floors;
  readonly admission: Admission;
  readonly processes: KnownProcesses;
  readonly permits: PermitNumbers;
}

export interface Candidate {
  /** It goes first: others may wait for what it holds, or nodes keep its key for a moment. */
  readonly isUrgent: boolean;
  wake(): void;
}

/**
 * Limits the tries under way. Ten thousand tries in one tick would wait in the queues of the servers, and their answers in the
 * queue of this process, until all of them had timed out. A try takes an entry; extensions, releases and joins need none, so a
 * lock that is held never waits for one.
 */
export class Admission {
  readonly #urgent = new Set<Candidate>();
  readonly #others = new Set<Candidate>();
  #inUse = 0;

  constructor(readonly limit: number) {}

  /** Takes an entry, or stands in line for one: `wake` is called when it is there. */
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

  /** Gives the entry of a try back that has ended. */
  exit(): void {
    this.#inUse -= 1;
    if (this.#inUse < 0) throw brokenInvariant('a try gives back one entry');
    if (this.#urgent.size + this.#others.size > 0) this.#wakeNext();
  }

  isWaiting(candidate: Candidate): boolean {
    return this.#others.has(candidate) || this.#urgent.has(candidate);
  }

  get #next(): Candidate | undefined {
    const [next] = this.#urgent.size > 0 ? this.#urgent : this.#others;
    return next;
  }

  #wakeNext(): void {
    if (this.#inUse < this.limit) this.#next?.wake();
  }
}
