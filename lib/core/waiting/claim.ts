import type { KeyRecord, Waiter } from '../holding/key-table.ts';
import { Deadline } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';

/** How many later arrivals may pass a set before it claims its keys. */
const PASSES = 8;
/** For how many of the longest holds of its keys a claim waits: for those that hold them, and callers that came earlier. */
const HOLDS = 4;

/**
 * What keeps a set of keys from waiting without end between callers of its single keys: after it was passed eight times, later
 * arrivals leave its keys alone until it is granted, a node names a holder in another process, or as much time has gone by as
 * those passes took, or four of the longest holds of its keys meanwhile.
 *
 * It claims only keys that change hands: beside one that is held for long the others would stand idle. Only later arrivals
 * are bound, so claims can't wait for each other in a circle, and each one ends by time.
 */
export class Claim extends Deadline {
  isActive = false;
  readonly #set: NodeSet;
  readonly #waiter: Waiter;
  readonly #records: readonly KeyRecord[];
  #passes = 0;
  #countedSinceMs: number;
  #longestHoldMs = 0;
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
    for (const { heldMs } of this.#records)
      this.#longestHoldMs = Math.max(this.#longestHoldMs, heldMs);
    if (this.isActive || this.#passes < PASSES || !this.#changesHands()) return;
    this.isActive = true;
    for (const record of this.#records) (record.claims ??= []).push(this.#waiter);
    const { nowMs, budgets, roundTripMs } = this.#set;
    const claimedMs = Math.min(
      nowMs - this.#countedSinceMs,
      HOLDS * (this.#longestHoldMs + roundTripMs),
    );
    budgets.set(this, Math.max(1, Math.ceil(claimedMs)), nowMs);
    this.#waiter.wake();
  }

  /** It lapses. */
  onDeadline(): void {
    this.end();
  }

  /** It was granted or given up, or its time has ended: the count starts again. */
  end(): void {
    this.#passes = this.#longestHoldMs = 0;
    this.#countedSinceMs = this.#set.nowMs;
    this.#turnoverBefore = this.#records.map(({ turnover }) => turnover);
    if (!this.isActive) return;
    this.isActive = false;
    this.#set.budgets.cancel(this);
    for (const { claims } of this.#records) claims?.splice(claims.indexOf(this.#waiter), 1);
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
