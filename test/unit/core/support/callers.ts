import type { HeldLock } from '../../../../lib/core/holding/held-lock.ts';
import type { KeyRecord, Waiter } from '../../../../lib/core/holding/key-table.ts';

/** A caller in line that writes down what happens to it. */
export class Caller implements Waiter {
  place: KeyRecord | undefined;
  previousInLine: Waiter | undefined;
  nextInLine: Waiter | undefined;
  readonly attempt = undefined;
  readonly ticket: number;
  readonly isImpatient: boolean;
  readonly #woken: number[];

  /** `woken` receives its ticket whenever it is woken. */
  constructor(ticket: number, woken: number[] = [], isImpatient = false) {
    this.ticket = ticket;
    this.isImpatient = isImpatient;
    this.#woken = woken;
  }

  wake(): void {
    this.#woken.push(this.ticket);
  }
}

/** As much of a lock as a key table looks at. */
export function lockOf(holder: string, records: readonly KeyRecord[] = []): HeldLock {
  return { holder, records } as HeldLock;
}
