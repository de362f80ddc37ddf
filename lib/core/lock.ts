import type { FencingToken } from './fencing-token.ts';

/**
 * A held lock.
 *
 * It ends by `release()`, by the end of an `await using` block, or by loss. On loss `signal` aborts with a
 * `LockLostError` before the validity ends, and every method says so. A lock never comes back.
 */
export interface Lock {
  /** The keys of the set, as asked for, sorted and without duplicates. */
  readonly keys: readonly string[];
  /** One token for the whole set, larger than that of every earlier holder of any of these keys. */
  readonly token: FencingToken;
  /** Aborted with a `LockLostError` on loss, at the latest when validity ends. Not aborted by release. */
  readonly signal: AbortSignal;
  /** Milliseconds of validity left, never negative; 0 when lost or released. Computed now, from the monotonic clock. */
  readonly remainingMs: number;
  /** True only inside validity, even when the event loop was blocked and timers are late. */
  readonly isHeld: boolean;
  /**
   * Call it before a step that must not run unlocked.
   * @throws LockLostError unless at least `ms` of validity are left (or the lock is lost or released).
   */
  ensure(ms?: number): void;
  /**
   * Extends the lease to its full TTL now, whatever the automatic extension does.
   * Resolves when a quorum agreed: then this was still the newest holder when the call was made.
   * @throws LockLostError when the lock is lost; QuorumUnavailableError when no quorum answered (the old validity stands).
   */
  extend(): Promise<void>;
  /**
   * Releases on all nodes; resolves when a quorum answered, or no answer is left to wait for; at once while sections that
   * joined the lock still run and keep it. Idempotent, never throws: a node that could not be notified is notified later, and
   * its key expires with the TTL.
   */
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
