import {
  Inject,
  Injectable,
  StreamableFile,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { isObservable, type Observable } from 'rxjs';
import { FencedUsageError, isRedlockError, quoteKeys } from '../../core/errors.ts';
import type { StaleTokenError } from '../../core/errors.ts';
import type { FencingToken } from '../../core/fencing-token.ts';
import type { Lock } from '../../core/lock.ts';
import type { WithLockOptions } from '../../core/options/options.ts';
import { resolveAcquire, type ResolvedOptions } from '../../core/options/resolve-options.ts';
import type { RedlockHost } from '../host/redlock-host.ts';
import { LockService } from '../lock.service.ts';
import { REDLOCK_HOST } from '../redlock.constants.ts';
import { callOption } from './fenced-key.ts';
import type { FencedDefinition, FencedRunner } from './fenced-metadata.ts';

/**
 * Takes the lock of a call, keeps it extended while the method runs, and releases it. Every method under `@Fenced` calls it by
 * itself; it need not be bound.
 */
@Injectable()
export class FencedInterceptor implements NestInterceptor, FencedRunner {
  /** Tokens that are at the fence already: nested methods join the lock, and need not claim again. */
  private readonly claimed = new WeakSet<FencingToken>();
  /** What the LockService has not, where a test replaced it. */
  private readonly missing: readonly ('withLock' | 'holds')[];

  constructor(
    @Inject(LockService) private readonly locks: Pick<LockService, 'withLock' | 'holds'>,
    @Inject(REDLOCK_HOST)
    private readonly host: Pick<RedlockHost, 'fence' | 'isInTransaction' | 'redlock'>,
  ) {
    const needed = ['withLock', 'holds'] as const;
    this.missing = needed.filter((name) => typeof locks?.[name] !== 'function');
  }

  /**
   * Bound by hand (`@UseInterceptors`) it passes every call through: a method under `@Fenced` takes its lock itself, with the
   * arguments that pipes have made, and any other method has no key.
   */
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }

  /** Runs one call of a method under `@Fenced`. */
  async run(definition: FencedDefinition, args: unknown[], body: () => unknown): Promise<unknown> {
    let isWaiting = false;
    let isJoined = false;
    const begin = (lock: Lock) => {
      writeParameters(definition, args, lock);
      return body();
    };
    /** Each of another key, and followed by another lock. */
    const refusals: StaleTokenError[] = [];
    const claimThen = async (lock: Lock) => {
      const refusal = await this.claim(lock);
      if (!refusal) return begin(lock);
      const isFinal = isJoined || refusals.some(({ key }) => key === refusal.key);
      if (isFinal || !isCurable(refusal, definition, this.host.redlock.options)) throw refusal;
      // The lock is released before the next try.
      refusals.push(refusal);
      return undefined;
    };
    const work = (lock: Lock) => {
      isWaiting = false;
      return definition.claim ? claimThen(lock) : begin(lock);
    };
    try {
      // What a caller passed there is forged: not even the key function may see it.
      writeParameters(definition, args, undefined);
      if (this.missing.length > 0) this.refuseDouble(definition);
      const keys = definition.keysOf(args);
      this.refuseInTransaction(definition, keys);
      isJoined = definition.claim && this.locks.holds(keys);
      const options = optionsOf(definition, args);
      let result: unknown;
      for (let tries = 0; tries <= refusals.length; tries += 1) {
        const last = refusals.at(-1);
        if (last) this.host.redlock.exceed(last.keys, Number(last.currentToken));
        isWaiting = true;
        result = await this.locks.withLock(keys, work, options);
      }
      refuseStream(result, definition.where);
      return result;
    } catch (error) {
      // A busy lock inside the method is the method's own error: half of its work may be done.
      const isBusy = isWaiting && isRedlockError(error) && error.code === 'LOCK_BUSY';
      // The holder that has it by now may be the newer one of the refusal.
      const [refusal] = isBusy ? refusals : [];
      if (isBusy && !refusal && definition.skipWhenBusy) return undefined;
      const final = refusal ?? error;
      locateError(final, definition.where);
      throw final;
    }
  }

  /**
   * Brings the lock's token to the fence. A claim may wait for a paused holder's transaction; it is waited for only while the
   * lock is held.
   *
   * @returns the refusal although the lock is still held: the resource has seen a number that is ahead of us
   * @throws StaleTokenError when a newer holder reached the resource
   * @throws LockLostError when the lock was lost meanwhile
   */
  private async claim(lock: Lock): Promise<StaleTokenError | undefined> {
    const { token, signal } = lock;
    if (this.claimed.has(token)) return undefined;
    lock.ensure();
    const claimed = new AbortController();
    const lost = new Promise<never>((_resolve, reject) => {
      const onLoss = () => reject(signal.reason as Error);
      signal.addEventListener('abort', onLoss, { once: true, signal: claimed.signal });
    });
    try {
      await Promise.race([this.host.fence.claim(token), lost]);
    } catch (error) {
      const isRefused = isRedlockError(error) && error.code === 'STALE_TOKEN';
      if (isRefused && lock.isHeld) return error as StaleTokenError;
      throw error;
    } finally {
      claimed.abort();
    }
    lock.ensure();
    this.claimed.add(token);
    return undefined;
  }

  private refuseDouble({ claim }: FencedDefinition): void {
    const asksForHeld = claim || this.host.isInTransaction !== undefined;
    // A double may have got it meanwhile.
    const missing = this.missing.find(
      (name) =>
        (name === 'withLock' || asksForHeld) &&
        typeof (this.locks as Partial<LockService> | null)?.[name] !== 'function',
    );
    if (missing === undefined) return;
    throw new FencedUsageError(
      `LockService was replaced by an object that has no ${missing}(). The method was not run. In a test, replace the nodes instead: overrideProvider(REDLOCK_NODES).useValue(createMemoryNodes(3)), with createMemoryNodes of nestjs-fenced-lock/testing.`,
    );
  }

  private refuseInTransaction(definition: FencedDefinition, keys: readonly string[]): void {
    if (definition.allowInTransaction || this.host.isInTransaction?.() !== true) return;
    // A lock held around the transaction is only joined, and outlives the commit.
    if (this.locks.holds(keys)) return;
    throw new FencedUsageError(
      `${definition.where}: @Fenced was called inside an open transaction. The lock ${quoteKeys(keys)} would be released before the commit, and the next holder would read old data. Call it outside of the transaction (put @Fenced above @Transactional, on the method that begins it), or set allowInTransaction: true if the method opens an independent transaction (REQUIRES_NEW).`,
      keys,
    );
  }
}

const DAY_MICROS = 86_400_000_000;

/**
 * Whether another lock would have a token above the one that the resource has seen: nodes vote for numbers of the coming day,
 * and a source of tokens gives its next one all the same. With `minHold` the released lock is kept from everybody for a while.
 */
function isCurable(
  { currentToken }: StaleTokenError,
  { lockOptions }: FencedDefinition,
  options: ResolvedOptions,
): boolean {
  if (options.tokenSource || resolveAcquire(options, lockOptions).minHoldMs > 0) return false;
  return Number(currentToken) < Date.now() * 1_000 + DAY_MICROS;
}

/** The options of the decorator are one object, so that they are worked out once; a signal is of one call. */
function optionsOf(definition: FencedDefinition, args: unknown[]): WithLockOptions {
  const { lockOptions, signalOf, where } = definition;
  const signal = signalOf && callOption(() => signalOf(...args), "the option 'signal'", where);
  return signal === undefined ? lockOptions : { ...lockOptions, signal };
}

function writeParameters(
  { tokenParameters, signalParameters }: FencedDefinition,
  args: unknown[],
  lock: Lock | undefined,
): void {
  for (const index of tokenParameters) args[index] = lock?.token;
  for (const index of signalParameters) args[index] = lock?.signal;
}

/** How many members of a plain object or an array are looked at: enough for what handlers return, and cheap for a long list. */
const MEMBERS_LOOKED_AT = 20;

/** @throws FencedUsageError when `result`, or a member of it, goes on working after the lock has been released */
function refuseStream(result: unknown, where: string): void {
  if (typeof result !== 'object' || result === null) return;
  let found = streamIn(result);
  if (found === undefined && isPlain(result)) {
    let left = MEMBERS_LOOKED_AT;
    for (const name in result) {
      found = streamIn((result as Record<string, unknown>)[name]);
      if (found !== undefined) found += ` in '${name}'`;
      if (found !== undefined || --left === 0) break;
    }
  }
  if (found === undefined) return;
  throw new FencedUsageError(
    `${where} returned ${found}: it would do its work after the lock was released. Return a promise of the result, for example with lastValueFrom, or open the stream outside of the locked method. The lock has been released.`,
  );
}

function streamIn(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isObservable(value)) return 'an Observable';
  if (value instanceof StreamableFile) return 'a StreamableFile';
  return Symbol.asyncIterator in value ? 'an async iterable' : undefined;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Array.isArray(value);
}

/**
 * Adds to an error of this package the method it came from, and the frames of its caller when the error was made in a callback
 * of a socket or a timer, which has none. Errors of others stay as they are.
 */
export function locateError(error: unknown, where: string): void {
  if (!isRedlockError(error) || error.where !== undefined || !Object.isExtensible(error)) return;
  error.where = where;
  let stack = error.stack ?? '';
  const { message } = error;
  if (!message.startsWith(where)) {
    error.message = `${where}: ${message}`;
    stack = stack.replace(message, () => error.message);
  }
  // After an `await` these are the frames of the callers that wait for the promise.
  const here: { stack?: string } = {};
  Error.captureStackTrace?.(here, locateError);
  const frames = (here.stack ?? '').split('\n').slice(2);
  // Between timers Node runs the promises in frames of its own, which the error may have as well.
  const callers = frames.filter((frame) => !frame.includes('(node:internal/'));
  const [caller] = callers;
  if (caller !== undefined && !stack.includes(caller)) stack = [stack, ...callers].join('\n');
  error.stack = stack;
}
