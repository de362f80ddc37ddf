import { Inject, Injectable } from '@nestjs/common';
import type { LockInspection } from '../core/nodes/inspection.ts';
import { enclosingLock } from '../core/holding/lock-context.ts';
import { normalizeKeys } from '../core/options/lock-keys.ts';
import type { Lock } from '../core/lock.ts';
import type { AcquireOptions, WithLockOptions } from '../core/options/options.ts';
import { registerLockServiceClass } from './lock-service-classes.ts';
import { REDLOCK_HOST } from './redlock.constants.ts';
import type { RedlockHost } from './host/redlock-host.ts';

/** Locks for code that is not one method: the same locks, tokens and rules as under `@Fenced`. */
@Injectable()
export class LockService {
  constructor(@Inject(REDLOCK_HOST) private readonly host: RedlockHost) {}

  /**
   * Runs `work` while the lock is held and releases it when the returned promise settles.
   *
   * Inside work that already holds these keys it joins that lock (same token). On loss `lock.signal` aborts, and when the
   * work finishes all the same, the call rejects with `LockLostError` unless `onLost: 'ignore'`. An error of the work is
   * never replaced, and a release that could not be delivered is an event, not an error.
   *
   * @throws LockBusyError when another holder kept it for the whole `wait`
   * @throws QuorumUnavailableError when too few nodes could vote
   * @throws LockLostError when the lock was lost before the work ended
   * @throws RedlockClosedError during shutdown
   */
  withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: WithLockOptions,
  ): Promise<Result> {
    return this.host.redlock.withLock(keys, work, options);
  }

  /**
   * Takes the lock, all keys or none, with one token for the set. The caller releases it: `await using lock = …`.
   *
   * @throws LockBusyError, QuorumUnavailableError, RedlockClosedError, or the reason of `options.signal`
   */
  acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock> {
    return this.host.redlock.acquire(keys, options);
  }

  /**
   * Like {@link acquire}, but `null` when another holder has it. `wait` is 0 unless given.
   *
   * @throws QuorumUnavailableError, RedlockClosedError, or the reason of `options.signal`
   */
  tryAcquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock | null> {
    return this.host.redlock.tryAcquire(keys, options);
  }

  /** What the nodes know of a key now: for people and dashboards, never for deciding whether one may write. */
  inspect(key: string): Promise<LockInspection> {
    return this.host.redlock.inspect(key);
  }

  /**
   * The innermost lock of this async context, or undefined outside of one. Work that outlives its section still sees the
   * lock, released: look at `isHeld`.
   */
  current(): Lock | undefined {
    return this.host.redlock.current();
  }

  /**
   * Whether the work of this async context is inside a lock that covers all of `keys` and is still held: then
   * {@link withLock} and {@link acquire} would join it.
   */
  holds(keys: string | readonly string[]): boolean {
    try {
      return enclosingLock(this.host.redlock, normalizeKeys(keys)) !== undefined;
    } catch {
      return false;
    }
  }

  /** Resolves true as soon as a quorum of nodes is connected, false after `timeoutMs`. For health checks. */
  ready(timeoutMs: number): Promise<boolean> {
    return this.host.redlock.ready(timeoutMs);
  }
}

registerLockServiceClass(LockService);
