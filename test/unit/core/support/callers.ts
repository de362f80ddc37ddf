import type { HeldLock } from '../../../../lib/core/holding/held-lock.ts';
import type { KeyLine, KeyRecord, Waiter } from '../../../../lib/core/holding/key-table.ts';

/** A caller in line that writes down what happens to it. */
export class Caller implements Waiter {
  place: KeyLine | undefined;
  previousInLine: Waiter | undefined;
  nextInLine: Waiter | undefined;
  readonly keys: readonly string[] = ['a'];
  readonly attempt = undefined;
  readonly ticket: number;
  /** When it may try, by its latest wake-up. */
  fromMs: number | undefined;
  readonly #woken: number[];

  /** `woken` receives its ticket whenever it is woken. */
  constructor(ticket: number, woken: number[] = []) {
    this.ticket = ticket;
    this.#woken = woken;
  }

  wake(fromMs?: number): void {
    this.fromMs = fromMs;
    this.#woken.push(this.ticket);
  }
}

/** As much of a lock as a key table looks at. */
export function lockOf(holder: string, records: readonly KeyRecord[] = []): HeldLock {
  return { holder, records } as HeldLock;
}
