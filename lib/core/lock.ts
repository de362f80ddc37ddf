import type { AboutKeys, AboutLock, AfterWait } from './events.ts';
import type { FencingToken } from './fencing-token.ts';

/**
 * A held lock.
 *
 * It ends by `release()`, by the end of an `await using` block, or by loss. On loss `signal` aborts with a
 * `LockLostError` before the validity ends, and every method says so. A lock never comes back.
 */
export interface Lock {
  /** The keys of the set, as asked for, sorted and without duplicates. With `permits`, it is the key of the slot: `api:x#slot:3`. */
  readonly keys: readonly string[];
  /** The number of its slot, from 0, where the call had `permits`. No two holders have the same one at once. */
  readonly slot?: number | undefined;
  /** The token of the whole set, larger than that of every earlier holder of any of these keys. */
  readonly token: FencingToken;
  /** Aborts with a `LockLostError` on loss, before validity ends if the event loop runs. `release()` does not abort it. */
  readonly signal: AbortSignal;
  /** Milliseconds of validity left, never negative; 0 when lost or released. Computed now, from the monotonic clock. */
  readonly remainingMs: number;
  /** True only inside validity, even when the event loop was blocked and timers are late. */
  readonly isHeld: boolean;
  /**
   * Call it before a step that must not run unlocked.
   * @param ms validity that must be left, in milliseconds. An extension gives less than the ttl (by `driftFactor` and 2 ms), so
   * that no more can be asked for. @default 0
   * @throws LockLostError when the lock is lost, or less is left (reason `short`: it is still held)
   * @throws FencedUsageError after `release()`, and when `ms` is no number of milliseconds or more than is ever left
   */
  ensure(ms?: number): void;
  /**
   * Renews the lock for its full ttl now, whatever the automatic renewal does.
   * Resolves when a quorum agreed: then this was still the newest holder when the call was made.
   * @throws LockLostError when the lock is lost
   * @throws QuorumUnavailableError when no quorum answered; the old validity stands
   * @throws FencedUsageError after `release()`
   */
  extend(): Promise<void>;
  /**
   * Releases on all nodes that may hold it. Resolves when a quorum has answered, after one node timeout at the latest; at
   * once while sections that joined still run, or `minHold` keeps the lock. Idempotent, never rejects: a node that could not
   * be notified is notified later, and its key expires with the TTL.
   */
  release(): Promise<void>;
  /** Releases, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lock that this process holds: it is in use, or is kept for its `minHold`. */
export interface OwnLock extends AboutLock {
  /** The time since it was granted. */
  readonly heldMs: number;
  /** The time for which the nodes keep it, unless it is extended or released. */
  readonly remainingMs: number;
  /** How many use it: its holder, and the sections that joined it. It is 0 when only `minHold` keeps it. */
  readonly sections: number;
}

/** A call of this process that waits for its lock. */
export interface WaitingCall extends AboutKeys, AfterWait {}

/** The locks and calls of this process, those that have lasted longest first. */
export interface OwnLocks {
  /** The locks that this process holds. */
  readonly held: readonly OwnLock[];
  /** The calls that wait for their lock. */
  readonly waiting: readonly WaitingCall[];
}
