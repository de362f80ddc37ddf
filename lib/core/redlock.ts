import type { Environment } from './environment.ts';
import type { LockInspection } from './inspection.ts';
import type { LockNode } from './lock-node.ts';
import type { Lock } from './lock.ts';
import type { AcquireOptions, RedlockOptions, WithLockOptions } from './options.ts';

/** The lock algorithm over N independent nodes. */
export declare class Redlock {
  /** @throws RedlockConfigError */
  constructor(nodes: readonly LockNode[], options?: RedlockOptions, environment?: Environment);
  /** Connects to every node and joins. Call once, before anything else. */
  open(): void;
  /** Resolves true as soon as a quorum of nodes has joined (they may still be in quarantine), false after `timeoutMs`. */
  ready(timeoutMs: number): Promise<boolean>;
  /** @throws LockBusyError QuorumUnavailableError RedlockClosedError RedlockConfigError FencedUsageError, or the signal's reason */
  acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock>;
  /** Like acquire, but null when busy; wait defaults to 0. */
  tryAcquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock | null>;
  /** Runs `work` while the lock is held, inside its async context; joins a lock already held in this context. */
  withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: WithLockOptions,
  ): Promise<Result>;
  /** Innermost lock of this async context (it may have been released or lost since), or undefined. */
  current(): Lock | undefined;
  inspect(key: string): Promise<LockInspection>;
  /** Refuses new locks from now on, waits up to `timeoutMs` until held ones are released, then releases the rest. */
  drain(timeoutMs: number): Promise<void>;
  /** drain(0), then closes the nodes. */
  close(): Promise<void>;
}
