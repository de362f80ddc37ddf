import type { KeyRecord, Waiter } from '../holding/key-table.ts';
import { Deadline } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';

/** How many later arrivals may pass a set before it claims its keys. */
const PASSES = 8;
/** A claimed key may stand idle for as long as so many of its own holds take. */
const IDLE_HOLDS = 8;
/** What a claim waits beyond what it expects: for callers that came earlier. */
const SLACK_MS = 10;

/**
 * What keeps a set of keys from waiting without end between callers of its single keys: after it was passed eight times, later
 * arrivals leave its keys alone until it is granted, a node names a holder in another process, or the time has gone by after
 * which all of them should have been free.
 *
 * It looks at them when one of them was released. It claims those for which that is worth it: that should stand idle for no
 * longer than a few of their own holds, and than it was passed, until the last one of the set is free. The others go on
 * changing hands, and are claimed later.
 *
 * Only later arrivals are bound, so claims can't wait for each other in a circle, and each one ends by time.
 */
export class Claim extends Deadline {
  isActive = false;
  readonly #set: NodeSet;
  readonly #waiter: Waiter;
  readonly #records: readonly KeyRecord[];
  #passes = 0;
  #countedSinceMs: number;
  #turnoverBefore: readonly number[];

  constructor(set: NodeSet, waiter: Waiter, records: readonly KeyRecord[]) {
    super();
    this.#set = set;
    this.#waiter = waiter;
    this.#records = records;
    this.#countedSinceMs = set.nowMs;
    this.#turnoverBefore = records.map(({ turnover }) => turnover);
  }

  /** A later arrival was granted one of the keys. */
  passed(): void {
    this.#passes += 1;
  }

  /** The set is blocked. */
  consider(nowMs: number): void {
    if (this.#passes < PASSES || !this.#changesHands()) return;
    const { roundTripMs, budgets } = this.#set;
    const freeInMs = this.#records.map((record) => expectedMs(record, nowMs));
    const waitMs = Math.max(...freeInMs);
    const passedForMs = nowMs - this.#countedSinceMs;
    const claimed = this.#records.filter((record, index) => {
      const idleMs = Math.min(IDLE_HOLDS * ((record.heldMs ?? 0) + roundTripMs), passedForMs);
      return waitMs - freeInMs[index]! <= idleMs && !record.claims?.includes(this.#waiter);
    });
    if (claimed.length === 0) return;
    this.isActive = true;
    for (const record of claimed) (record.claims ??= []).push(this.#waiter);
    const limitMs = 1.25 * waitMs + SLACK_MS + 4 * roundTripMs;
    budgets.set(this, Math.ceil(limitMs), nowMs);
  }

  /** It lapses. */
  onDeadline(): void {
    this.end();
  }

  /** It was granted or given up, or its time has ended: the count starts again. */
  end(): void {
    this.#passes = 0;
    this.#countedSinceMs = this.#set.nowMs;
    this.#turnoverBefore = this.#records.map(({ turnover }) => turnover);
    if (!this.isActive) return;
    this.isActive = false;
    this.#set.budgets.cancel(this);
    for (const record of this.#records) {
      const at = record.claims?.indexOf(this.#waiter) ?? -1;
      if (at >= 0) record.claims!.splice(at, 1);
    }
    for (const record of this.#records) record.wake();
  }

  #changesHands(): boolean {
    return this.#records.every(
      ({ lock, foreign, turnover }, index) =>
        foreign === undefined &&
        (lock === undefined || turnover > (this.#turnoverBefore[index] ?? 0)),
    );
  }
}

/** When it should be free: held for as long as last time, or for twice as long as it has been held when that is over. */
function expectedMs({ lock, trying, heldMs = 0, busyAtMs }: KeyRecord, nowMs: number): number {
  if (lock === undefined) return trying === undefined ? 0 : heldMs;
  const sinceMs = nowMs - busyAtMs;
  return sinceMs < heldMs ? heldMs - sinceMs : sinceMs;
}
