import { HttpException, Inject, Injectable } from '@nestjs/common';
import { isRedlockError, OnceConflictError } from '../core/errors.ts';
import type { Lock } from '../core/lock.ts';
import { durationMs, type Duration } from '../core/options/duration.ts';
import { oneKey } from '../core/options/lock-keys.ts';
import { callback, checkOptions, flag, type OptionKind } from '../core/options/option-names.ts';
import { checkKey } from '../fencing/fence-claim.ts';
import type { Fence } from '../fencing/fence.ts';
import type { RedlockHost } from '../nest/redlock-host.ts';
import { LockService } from '../locks/lock-service.ts';
import { REDLOCK_HOST } from '../nest/redlock.constants.ts';
import { OF_SECTION, type SectionOptions } from '../locks/section.ts';
import { exactJson, fingerprintOf } from './json.ts';
import { OnceTable, type StoredAnswer } from './once-table.ts';

/** Options of work that is done once: those of its lock, and these. */
export interface OnceOptions extends Omit<SectionOptions, 'claim' | 'onLost' | 'permits'> {
  /** How long later calls get the stored answer, by the clock of the database; then the work runs again. @default '24h' */
  readonly keep?: Duration;
  /**
   * Keep an `HttpException` with a status below 500 as the answer, such as a card that was declined: later calls get it, and the work
   * does not run again. All other errors may pass, and are never kept. @default false
   */
  readonly keepErrors?: boolean;
}

/** What {@link OnceService.run} does once, and the options of that. */
export interface OnceWork<Transaction, Result, Before = undefined> extends OnceOptions {
  /** Names the operation: the lock, the fence and the stored answer have this key. */
  readonly key: string;
  /** What a later call must have as well. Its digest is stored. */
  readonly payload: unknown;
  /**
   * The slow part outside of the database, such as a call of a payment provider. It runs under the lock and before the transaction is
   * opened, when no earlier run can commit any more. If the process dies after it, the next call runs it again: give the provider the
   * key as its idempotency key. @default none
   */
  readonly before?: (lock: Lock) => Promise<Before> | Before;
  /**
   * Runs in the transaction, and gets what `before` returned. It returns what JSON can carry, or undefined. The database may abort the
   * transaction for the sake of another one: then it runs again in a new one, so it does nothing outside of `tx`.
   */
  readonly work: (tx: Transaction, before: Before, lock: Lock) => Promise<Result> | Result;
}

/** Ten years. */
const MAX_KEEP_MS = 315_360_000_000;

const { claim: _claim, onLost: _onLost, permits: _permits, ...SECTION } = OF_SECTION.table;

export const ONCE_OPTIONS = {
  ...SECTION,
  keep: ((value, option) =>
    durationMs(option, value as Duration, 1, MAX_KEEP_MS)) as OptionKind<number>,
  keepErrors: flag,
};

const RUN_OPTIONS = {
  ...ONCE_OPTIONS,
  key: (value: unknown) => value as string,
  payload: (value: unknown) => value,
  before: callback,
  work: callback,
};

/** One call, with its options checked. */
export interface OnceCall {
  readonly key: string;
  readonly payload?: unknown;
  readonly work: (transaction: any, before: any, lock: Lock) => unknown;
  readonly before?: ((lock: Lock) => unknown) | undefined;
  readonly keep?: number | undefined;
  readonly keepErrors?: boolean | undefined;
}

/**
 * Work that is done once for each key: later calls get the answer of the first one.
 *
 * The answer is a row in the database of the fence, written in the fenced transaction of the work. Both are there, or neither: a
 * process that dies leaves no half, and one that was frozen can't commit after a newer one. A later call is one SELECT, without a lock.
 *
 * Add it to the `providers` of each module that uses it, `@Once` or `@Idempotent`.
 *
 * @typeParam Transaction what the fence gives to the work of its transactions
 */
@Injectable()
export class OnceService<Transaction = any> {
  readonly #locks: LockService;
  readonly #fence: Fence;
  readonly #table: OnceTable;

  /** @throws RedlockConfigError when the module has no fence in an SQL database */
  constructor(@Inject(REDLOCK_HOST) host: RedlockHost) {
    this.#table = new OnceTable(host.fence);
    this.#fence = host.fence as Fence;
    this.#locks = new LockService(host);
  }

  /**
   * Runs `work` in a transaction of the fence, stores what it returns, and commits both. When there is an answer already, it returns that
   * and runs nothing. While another call runs, it waits as for a lock.
   *
   * @throws OnceConflictError when an earlier call had another payload; nothing was run
   * @throws LockBusyError when another call still runs after `wait`
   * @throws StaleTokenError when a newer holder reached the database, and there is no answer yet; nothing was written
   * @throws FencedUsageError when the result can't be stored, or the payload not be compared; nothing was written
   * @throws what {@link LockService.withLock}, `before` and `work` throw
   *
   * @example
   * ```ts
   * async pay(order: { id: string; cents: number }) {
   *   return this.once.run({
   *     key: `pay:${order.id}`,
   *     payload: order,
   *     before: () => this.payments.charge(order.id),
   *     work: async (tx) => {
   *       await tx.query('INSERT INTO payment VALUES ($1, $2)', [order.id, order.cents]);
   *       return { paid: order.cents };
   *     },
   *   });
   * }
   * ```
   */
  async run<Result, Before = undefined>(
    once: OnceWork<Transaction, Result, Before>,
  ): Promise<Result> {
    const given = checkOptions('OnceService.run', RUN_OPTIONS, once);
    const { key, payload, before, work, keep, keepErrors, ...lock } = given;
    const needed = { key: oneKey(key!), work: callback(work, 'work') };
    const call = { ...needed, payload, before, keep, keepErrors };
    // After a claim no earlier run can commit, so an answer that is missing then stays missing.
    return this.call(call, before ? { ...lock, claim: true } : lock) as Promise<Result>;
  }

  /** Deletes the answers that were kept for long enough, in pages, without waiting for anybody. @returns their number */
  prune(): Promise<number> {
    return this.#table.prune();
  }

  /** @internal */
  async call(call: OnceCall, section: SectionOptions): Promise<unknown> {
    const { key } = call;
    checkKey(key);
    const fingerprint = fingerprintOf(call.payload);
    const stored = (await this.#table.find(key)) ?? (await this.#first(call, fingerprint, section));
    if (stored.fingerprint !== fingerprint) throw new OnceConflictError(key);
    const { result, error } = JSON.parse(stored.answer) as KeptAnswer;
    if (error) throw new HttpException(error.response, error.status);
    return result;
  }

  /** Runs the first call, or gives the answer of the newer one that has taken its place. */
  async #first(
    call: OnceCall,
    fingerprint: string,
    section: SectionOptions,
  ): Promise<StoredAnswer> {
    try {
      const work = (lock: Lock) => this.#runFirst(call, fingerprint, lock);
      return await this.#locks.withLock(call.key, work, section);
    } catch (error) {
      const isReplaced = isRedlockError(error) && /STALE_TOKEN|LOCK_LOST/.test(error.code);
      const newer = isReplaced && (await this.#table.find(call.key).catch(() => undefined));
      if (newer) return newer;
      throw error;
    }
  }

  async #runFirst(call: OnceCall, fingerprint: string, lock: Lock): Promise<StoredAnswer> {
    const { key, work, before, keepErrors } = call;
    const table = this.#table;
    /** Answers in a transaction of the fence, unless an earlier run has. */
    const answering = (answer: (tx: unknown) => Promise<string> | string) =>
      this.#fence.transaction(
        lock.token,
        async (tx) => {
          const earlier = await table.find(key, tx);
          if (earlier) return earlier;
          const stored = { fingerprint, answer: await answer(tx) };
          await table.checkOpen(tx);
          await table.store(tx, key, stored, lock.token.value, call.keep ?? DAY_MS);
          return stored;
        },
        { keys: [key] },
      );
    try {
      const earlier = before && (await table.find(key));
      if (earlier) return earlier;
      const done = await before?.(lock);
      return await answering(async (tx) => resultJson(await work(tx, done, lock)));
    } catch (error) {
      if (keepErrors && error instanceof HttpException && error.getStatus() < 500) {
        // The work has this error all the same where it can't be kept.
        await answering(() => errorJson(error)).catch(() => undefined);
      }
      throw error;
    }
  }
}

const DAY_MS = 86_400_000;

/** An answer as it is stored; one without fields is that of work that returned undefined. */
interface KeptAnswer {
  readonly result?: unknown;
  readonly error?: { readonly response: string | Record<string, any>; readonly status: number };
}

function resultJson(result: unknown): string {
  return result === undefined ? '{}' : `{"result":${exactJson(result)}}`;
}

function errorJson(error: HttpException): string {
  const kept = { response: error.getResponse(), status: error.getStatus() };
  return `{"error":${exactJson(kept)}}`;
}
