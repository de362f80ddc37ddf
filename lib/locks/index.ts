/**
 * Locks without Nest: for scripts, functions and other frameworks. Neither Nest nor rxjs nor reflect-metadata is loaded.
 *
 * @module nestjs-fenced-lock/core
 */
export {
  FencedUsageError,
  isRedlockError,
  LockBusyError,
  LockLostError,
  QuorumUnavailableError,
  RedlockClosedError,
  RedlockConfigError,
  RedlockError,
  StaleTokenError,
} from '../core/errors.ts';
export { FencingToken } from '../core/fencing-token.ts';
export type { Lock } from '../core/lock.ts';
export type { AcquireOptions, WithLockOptions } from '../core/options/options.ts';
export { createLocks } from './create-locks.ts';
export type { Locks, LocksOptions } from './create-locks.ts';
export type { LockLogger } from './event-log.ts';
export type { LockServiceOptions } from './locks-options.ts';
export type { SectionOptions } from './section.ts';
