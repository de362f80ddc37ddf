import { FencedUsageError, isRedlockError, type StaleTokenError } from '../core/errors.ts';
import type { RedlockHost } from './host/redlock-host.ts';
import type { FencingToken } from '../core/fencing-token.ts';
import type { Lock } from '../core/lock.ts';
import type { WithLockOptions } from '../core/options/options.ts';
import { resolveAcquire, type ResolvedOptions } from '../core/options/resolve-options.ts';
import type { LockService } from './lock.service.ts';
import type { ModuleFence } from './redlock-module-options.ts';

/** A section under a lock whose token is at the module's fence before its work begins. */
export interface ClaimedSection<Result> {
  readonly locks: Pick<LockService, 'withLock' | 'holds'>;
  readonly keys: string | readonly string[];
  readonly work: (lock: Lock) => Promise<Result> | Result;
  readonly options: WithLockOptions;
  /** Called each time the lock was taken, before the claim. */
  readonly onAcquired?: () => void;
}

/** Brings tokens to the module's fence at the beginning of sections. */
export class FenceClaims {
  /** Tokens that are at the fence already: nested sections join the lock, and need not claim again. */
  readonly #claimed = new WeakSet<FencingToken>();
  readonly #host: Pick<RedlockHost, 'fence' | 'redlock'>;

  constructor(host: Pick<RedlockHost, 'fence' | 'redlock'>) {
    this.#host = host;
  }

  /**
   * Runs a section. Where the claim is refused although the lock is still held, the resource has seen a number that is ahead of
   * us: then the lock is taken once more, with a number above that one, for each key at most once.
   *
   * @throws FencedUsageError when the module was given no fence; nothing was locked
   * @throws StaleTokenError when that can't help: a newer holder reached the resource
   * @throws what `withLock` throws
   */
  async run<Result>(section: ClaimedSection<Result>): Promise<Result> {
    const { fence } = this.#host;
    if (fence === undefined)
      throw new FencedUsageError(
        'A claim needs a fence: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }). Nothing was locked.',
      );
    const { locks, work, options, onAcquired } = section;
    // Keys are copied: the caller's array may have changed by the second lock.
    const keys = Array.isArray(section.keys) ? [...section.keys] : section.keys;
    const { redlock } = this.#host;
    const isJoined = locks.holds(keys);
    /** Refusals, each of another key, after which the lock is taken again. */
    const refusals: StaleTokenError[] = [];
    let isWaiting = false;
    const claimThen = async (lock: Lock): Promise<Result | undefined> => {
      isWaiting = false;
      onAcquired?.();
      const refusal = await this.#claim(fence, lock, options.signal);
      if (!refusal) return work(lock);
      const isFinal = isJoined || refusals.some(({ key }) => key === refusal.key);
      if (isFinal || !isCurable(refusal, options, redlock.options)) throw refusal;
      // The lock is released before the next try.
      refusals.push(refusal);
      return undefined;
    };
    try {
      let result: Result | undefined;
      for (let tries = 0; tries <= refusals.length; tries += 1) {
        const last = refusals.at(-1);
        if (last) redlock.exceed(last.keys, Number(last.currentToken));
        isWaiting = true;
        result = await locks.withLock(keys, claimThen, options);
      }
      return result as Result;
    } catch (error) {
      // The holder that has it by now may be the newer one of the refusal.
      const isAborted = options.signal?.aborted === true && options.signal.reason === error;
      if (isWaiting && !isAborted && isRedlockError(error) && error.code === 'LOCK_BUSY')
        throw refusals[0] ?? error;
      throw error;
    }
  }

  /**
   * Brings the lock's token to the fence. A claim may wait for a paused holder's transaction; it is waited for only while the
   * lock is held.
   *
   * @returns the refusal although the lock is still held: the resource has seen a number that is ahead of us
   * @throws StaleTokenError when a newer holder reached the resource
   * @throws LockLostError when the lock was lost meanwhile
   * @throws the reason of `callerSignal` when that aborts meanwhile
   */
  async #claim(
    fence: ModuleFence,
    lock: Lock,
    callerSignal?: AbortSignal,
  ): Promise<StaleTokenError | undefined> {
    const { token, signal } = lock;
    if (this.#claimed.has(token)) return undefined;
    lock.ensure();
    const claimed = new AbortController();
    const ended = new Promise<never>((_resolve, reject) => {
      for (const each of [signal, callerSignal])
        each?.addEventListener('abort', () => reject(each.reason as Error), {
          once: true,
          signal: claimed.signal,
        });
    });
    try {
      callerSignal?.throwIfAborted();
      await Promise.race([fence.claim(token), ended]);
    } catch (error) {
      const isRefused = isRedlockError(error) && error.code === 'STALE_TOKEN';
      if (isRefused && lock.isHeld) return error as StaleTokenError;
      throw error;
    } finally {
      claimed.abort();
    }
    lock.ensure();
    this.#claimed.add(token);
    return undefined;
  }
}

const DAY_MICROS = 86_400_000_000;

/**
 * Says whether another lock would have a token above the one that the resource has seen: nodes vote for numbers of the coming
 * day, and a source of tokens gives its next one all the same. With `minHold` the released lock is kept from everybody for a while.
 */
function isCurable(
  { currentToken }: StaleTokenError,
  lockOptions: WithLockOptions,
  options: ResolvedOptions,
): boolean {
  if (options.tokenSource || resolveAcquire(options, lockOptions).minHoldMs > 0) return false;
  return Number(currentToken) < Date.now() * 1_000 + DAY_MICROS;
}
