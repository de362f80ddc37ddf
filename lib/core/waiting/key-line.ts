import { Deadline } from '../deadlines.ts';
import type { Attempt } from '../voting/attempt.ts';
import type { Call } from './call.ts';

/** A caller that waits for keys. It stands in one line at a time. */
export abstract class Waiter extends Deadline {
  line: KeyLine | undefined = undefined;
  /** It has no answer yet, and no more time than one takes: the end of every try wakes it. */
  isOwed = false;
  abstract readonly call: Call;
  abstract readonly attempt: Attempt | undefined;

  /** Looks again whether it can try, because something changed; it may from `fromMs` on, if that is given. */
  abstract wake(fromMs?: number): void;
}

/** The callers of this process that wait for one key, in the order of their arrival. */
export class KeyLine {
  readonly #waiters: Waiter[] = [];

  get first(): Waiter | undefined {
    return this.#waiters[0];
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

  /** A try for the key has ended: there may be an answer, or the need for a try of their own. */
  wakeOwed(): void {
    for (const waiter of this.#waiters) if (waiter.isOwed) waiter.wake();
  }
}
