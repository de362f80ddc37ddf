import type { Attempt } from '../voting/attempt.ts';
import type { Call } from './call.ts';

/** A caller that waits for keys. It stands in one line at a time. */
export interface Waiter {
  line: KeyLine | undefined;
  /** It has no answer yet, and time is short: the end of every try wakes it. */
  readonly isOwed: boolean;
  readonly call: Call;
  readonly attempt: Attempt | undefined;
  /** See {@link Replacement}. */
  readonly number: number | undefined;
  /** It looks again whether it can try, which it may from `fromMs` on, if that is given. */
  wake(fromMs?: number): void;
}

/** The callers of this process that wait for one key, in the order of their arrival. */
export class KeyLine {
  readonly #waiters: Waiter[] = [];

  get first(): Waiter | undefined {
    return this.#waiters[0];
  }

  get waiters(): readonly Waiter[] {
    return this.#waiters;
  }

  /** Mostly behind all others, and in front for one that moves or comes back from its try. */
  enter(waiter: Waiter): void {
    const { arrival } = waiter.call;
    const before = this.#waiters.findLastIndex((each) => each.call.arrival < arrival);
    this.#waiters.splice(before + 1, 0, waiter);
    waiter.line = this;
  }

  /** A head that leaves hands its wake-up on. */
  leave(waiter: Waiter): void {
    const isHead = this.first === waiter;
    this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
    waiter.line = undefined;
    if (isHead) this.first?.wake();
  }

  /** A try for the key has ended: those who are owed an answer have one now, or must try themselves. */
  wakeOwed(): void {
    for (const waiter of this.#waiters) if (waiter.isOwed) waiter.wake();
  }
}
