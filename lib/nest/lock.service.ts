import { Inject, Injectable, StreamableFile } from '@nestjs/common';
import { isGeneratorObject } from 'node:util/types';
import { isObservable } from 'rxjs';
import { FencedUsageError } from '../core/errors.ts';
import type { Lock } from '../core/lock.ts';
import type { LockInspection } from '../core/nodes/inspect.ts';
import type { AcquireOptions, WithLockOptions } from '../core/options/options.ts';
import { durationMs } from '../core/options/duration.ts';
import { OF_WITH_LOCK, oneOf } from '../core/options/resolve-options.ts';
import type { RedlockHost } from './host/redlock-host.ts';
import { REDLOCK_HOST } from './redlock.constants.ts';

/** Options of {@link LockService.withLock}. */
export interface SectionOptions extends WithLockOptions {
  /**
   * Bring the token to the module's fence before the work begins, for work that reads before (or outside) its writing transaction.
   * A stale token rejects with `StaleTokenError`, without running the work; one that is refused only because the resource has
   * seen a number ahead of the clocks is replaced by a newer one. The writing transaction must check the token all the same.
   * @default false
   */
  readonly claim?: boolean;
}

const OF_SECTION = {
  ...OF_WITH_LOCK,
  names: [...OF_WITH_LOCK.names, 'claim'],
  checkResult: refuseLazy,
};

/**
 * Locks for code that is not one method: the same locks, tokens and rules as under `@Fenced`.
 *
 * `keys` is one key or several; several are one lock, all or none, with one token that covers the set. Keys are non-empty
 * strings, taken as they are: a template of `@Fenced` (`'seat:{0}'`) is not filled in here. Wrong keys are a `FencedUsageError`, and
 * so are templates. A hash tag such as `seat:{42}` is no template; for the identifier 0 write `seat:{id:0}`. Wrong options are a
 * `RedlockConfigError`.
 *
 * @example
 * ```ts
 * await locks.withLock('report:all', async (lock) => {
 *   lock.ensure(2_000);
 *   await work(lock.signal);
 * });
 * ```
 */
@Injectable()
export class LockService {
  constructor(@Inject(REDLOCK_HOST) private readonly host: RedlockHost) {}

  /**
   * Runs `work` while the lock is held, and releases it when the returned promise settles.
   *
   * On loss `lock.signal` aborts; when the work finishes all the same, the call rejects with `LockLostError`, which carries the result (`onLost: 'ignore'` returns it).
   * An error of the work is never replaced, and a release that could not be delivered is an event, not an error. Work that returns
   * an Observable, an async iterable or a generator is refused: that would go on after the release.
   *
   * @throws LockBusyError when another holder kept it for the whole `wait`
   * @throws QuorumUnavailableError when too few nodes could vote
   * @throws LockLostError when the lock was lost before the work ended
   * @throws RedlockClosedError during shutdown
   * @throws StaleTokenError when `claim: true` finds that a newer holder reached the resource; the work did not run
   * @throws FencedUsageError when the call runs inside work that holds these keys already (unless `nested: 'join'`), and when the
   * work returned what would go on after the release
   * @throws the reason of `options.signal` when it aborts the wait
   */
  withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: SectionOptions,
  ): Promise<Result> {
    // Not by `promised`: under `@Fenced` every call comes by here.
    try {
      const host = hostOf(this);
      return options?.claim === undefined
        ? host.redlock.withLock(keys, work, options, OF_SECTION)
        : withClaim({ locks: this, host, keys, work }, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Acquires the lock, waiting up to `wait`, and leaves the release to the caller: `await using lock = …`.
   *
   * @throws LockBusyError, QuorumUnavailableError, RedlockClosedError, or the reason of `options.signal`; then nothing is held
   * @throws FencedUsageError when the call runs inside work that holds these keys already
   */
  acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock> {
    return promised(() => hostOf(this).redlock.acquire(keys, options));
  }

  /**
   * Like {@link acquire}, but resolves to `null` when another holder has it. `wait` is 0 unless given: one try. An outage is still
   * an error.
   *
   * @throws QuorumUnavailableError, RedlockClosedError, or the reason of `options.signal`
   * @throws FencedUsageError as {@link acquire} does
   */
  tryAcquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock | null> {
    return promised(() => hostOf(this).redlock.tryAcquire(keys, options));
  }

  /**
   * What the nodes know of a key now: for people and dashboards, never for deciding whether one may write. Waits at most one node
   * timeout, and never rejects for nodes that don't answer: they have a `failure`, and where they could change it, `holder` is
   * `undefined`.
   *
   * @throws FencedUsageError for a key that {@link withLock} refuses
   */
  inspect(key: string): Promise<LockInspection> {
    return promised(() => hostOf(this).redlock.inspect(key));
  }

  /**
   * The lock of the innermost section (`withLock`, `@Fenced`) of this async context that still runs, or undefined outside of
   * one. It may have been lost: look at `isHeld`. Work that outlives its section no longer sees the lock.
   */
  current(): Lock | undefined {
    return hostOf(this).redlock.current();
  }

  /**
   * Whether the work of this async context is inside a lock that covers all of `keys` and is still held: then {@link withLock}
   * joins it with `nested: 'join'`, and is refused without.
   */
  holds(keys: string | readonly string[]): boolean {
    return hostOf(this).redlock.holds(keys);
  }

  /**
   * For health checks: resolves to true as soon as locks can be had as far as known, to false after `timeoutMs`, and to false at
   * once during shutdown.
   *
   * A quorum of nodes must be connected, and the latest try for any lock must have found one. A try without a quorum (an outage,
   * not contention) counts until another one finds a quorum, or for `maxTtl`, but not longer than ten seconds: where un-ready
   * means no calls, nothing else would find out that the servers are well again. While a majority leaves even a PING without
   * an answer it stays false. Nodes that restarted may still be waiting to vote.
   */
  ready(timeoutMs: number): Promise<boolean> {
    return promised(() => hostOf(this).redlock.ready(durationMs('timeoutMs', timeoutMs)));
  }
}

/** A section of `withLock`. Not a private method: a proxy of the service, or an object that inherits from it, has none. */
interface ClaimingCall<Result> {
  readonly locks: LockService;
  readonly host: RedlockHost;
  readonly keys: string | readonly string[];
  readonly work: (lock: Lock) => Promise<Result> | Result;
}

async function withClaim<Result>(
  { locks, host, keys, work }: ClaimingCall<Result>,
  { claim, ...options }: SectionOptions,
): Promise<Result> {
  oneOf('claim', claim, [true, false]);
  const { redlock, claims } = host;
  // It says what is wrong with the work.
  if (!claim || typeof work !== 'function')
    return redlock.withLock(keys, work, options, OF_SECTION);
  return claims.run({ locks, keys, work, options });
}

/** A method that answers with a promise never throws by itself. */
function promised<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return call();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** How many members of a plain object or an array are looked at: enough for what handlers return, and cheap for a long list. */
const MEMBERS_LOOKED_AT = 20;

/** @throws FencedUsageError when `result`, or a member of it, goes on working after the lock has been released */
function refuseLazy(result: unknown, keys: readonly string[]): void {
  if (typeof result !== 'object' || result === null) return;
  let found = lazyKindOf(result);
  if (found === undefined && isPlain(result)) {
    let left = MEMBERS_LOOKED_AT;
    for (const name in result) {
      found = lazyKindOf((result as Record<string, unknown>)[name]);
      if (found !== undefined) found += ` in '${name}'`;
      if (found !== undefined || --left === 0) break;
    }
  }
  if (found === undefined) return;
  throw new FencedUsageError(
    `The locked work returned ${found}: it would go on after the lock was released. Return a promise of the result, for example with lastValueFrom, or open the stream outside of the locked work. The lock has been released.`,
    keys,
  );
}

function lazyKindOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isObservable(value)) return 'an Observable';
  if (value instanceof StreamableFile) return 'a StreamableFile';
  if (Symbol.asyncIterator in value) return 'an async iterable';
  return isGeneratorObject(value) ? 'a generator' : undefined;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Array.isArray(value);
}

/** @throws FencedUsageError when the method was taken off the service, as by `const { withLock } = locks` */
function hostOf(service: LockService | undefined): RedlockHost {
  const { host } = (service ?? {}) as { readonly host?: RedlockHost };
  if (host === undefined)
    throw new FencedUsageError(
      'A method of LockService was called without its service: call locks.withLock(…), not a withLock that was taken off it. Nothing was locked.',
    );
  return host;
}
