import { isGeneratorObject } from 'node:util/types';
import { FencedUsageError, isRedlockError, type StaleTokenError } from '../core/errors.ts';
import { noteAdmission, type FencingToken } from '../core/fencing-token.ts';
import type { Lock } from '../core/lock.ts';
import { normalizeKeys } from '../core/options/lock-keys.ts';
import { choice, flag } from '../core/options/option-names.ts';
import type { WithLockOptions } from '../core/options/options.ts';
import {
  WITH_LOCK_RULES,
  resolveAcquire,
  type ResolvedOptions,
} from '../core/options/resolve-options.ts';
import type { Redlock } from '../core/redlock.ts';
import type { ModuleFence } from './locks-options.ts';

/** The options of {@link LockService.withLock}. */
export interface SectionOptions extends WithLockOptions {
  /**
   * Bring the token to the module's fence before the work begins, for work that reads before (or outside) its writing transaction.
   * A stale token rejects with `StaleTokenError`, without running the work; one that is rejected only because the resource has
   * seen a number ahead of the clocks is replaced by a newer one. The writing transaction must check the token all the same.
   * @default false
   */
  readonly claim?: boolean;
}

/** The description of what a section takes; `@Fenced` resolves its options by it, too. */
export const OF_SECTION = {
  call: 'withLock',
  table: { ...WITH_LOCK_RULES.table, claim: flag, onBusy: choice('throw', 'replace', 'attach') },
  checkResult: refuseLazy,
};

/** @throws FencedUsageError when `result` goes on working after the lock has been released */
function refuseLazy(result: unknown, keys: readonly string[]): void {
  const found = lazyKindOf(result);
  if (found === undefined) return;
  throw new FencedUsageError(
    `The locked work returned ${found}: it would go on after the lock was released. Return a promise of the result, for example with lastValueFrom, or open the stream outside of the locked work. The lock has been released.`,
    keys,
  );
}

function lazyKindOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  // They are told by their methods, since not everybody has the packages of rxjs and Nest.
  if ('lift' in value && 'subscribe' in value) return 'an Observable';
  if ('getStream' in value && 'getHeaders' in value) return 'a StreamableFile';
  if (Symbol.asyncIterator in value) return 'an async iterable';
  return isGeneratorObject(value) ? 'a generator' : undefined;
}

interface FencedService {
  /** Undefined where the module was given none. */
  readonly fence: ModuleFence | undefined;
  /** The grant of a lock is the claim of its token there. */
  readonly isClaimedByGrant: boolean;
  readonly redlock: Redlock;
}

/** Brings tokens to the module's fence at the beginning of sections. */
export class FenceClaims {
  /** Tokens that are at the fence already: nested sections join the lock, and need not claim again. */
  readonly #claimed = new WeakSet<FencingToken>();
  readonly #host: FencedService;

  constructor(host: FencedService) {
    this.#host = host;
  }

  /**
   * Runs a section whose token is at the fence before its work begins. Where the claim is refused although the lock is still held,
   * the resource has seen a number that is ahead of us: then the lock is taken once more, with a number above that one, for each
   * key at most once.
   *
   * @throws FencedUsageError when the module was given no fence; nothing was locked
   * @throws StaleTokenError when that can't help: a newer holder reached the resource
   * @throws what `withLock` throws
   */
  async run<Result>(
    given: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options: SectionOptions,
  ): Promise<Result> {
    const { fence, redlock } = this.#host;
    if (fence === undefined)
      throw new FencedUsageError(
        'A claim needs the fence beside the nodes: { nodes, fence: postgresFence(pool) }. Nothing was locked.',
      );
    // A copy: the caller's array may have changed by the second lock.
    const keys = normalizeKeys(given);
    const isJoined = redlock.holds(keys);
    /** Refusals, each of another key, after which the lock is taken again. */
    const refusals: StaleTokenError[] = [];
    let isWaiting = false;
    const claimThen = async (lock: Lock): Promise<Result | undefined> => {
      isWaiting = false;
      const refusal = await this.#claim(fence, lock, options.signal);
      if (!refusal) return work(lock);
      redlock.raiseFloor(refusal.keys, Number(refusal.currentToken));
      const isFinal = isJoined || refusals.some(({ key }) => key === refusal.key);
      if (isFinal || !isCurable(refusal, options, redlock.options)) throw refusal;
      // The lock is released before the next try.
      refusals.push(refusal);
      return undefined;
    };
    try {
      let result: Result | undefined;
      for (let tries = 0; tries <= refusals.length; tries += 1) {
        isWaiting = true;
        result = await redlock.withLock(keys, claimThen, options, OF_SECTION);
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
    if (this.#host.isClaimedByGrant) {
      callerSignal?.throwIfAborted();
      return this.#admitted(token);
    }
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
    return this.#admitted(token);
  }

  #admitted(token: FencingToken): undefined {
    this.#claimed.add(token);
    noteAdmission(token, true);
  }
}

const DAY_MICROS = 86_400_000_000;

/**
 * Says whether another lock would have a token above the one that the resource has seen: nodes vote for numbers of the coming
 * day, and a source of tokens gives its next one all the same. With `minHold` the released lock is kept from everybody for a while.
 */
function isCurable(
  { currentToken }: StaleTokenError,
  section: SectionOptions,
  options: ResolvedOptions,
): boolean {
  // Its number would be above that of a newer call.
  if (options.tokenSource || section.onBusy === 'replace') return false;
  if (resolveAcquire(options, section, OF_SECTION).minHoldMs > 0) return false;
  return Number(currentToken) < Date.now() * 1_000 + DAY_MICROS;
}
