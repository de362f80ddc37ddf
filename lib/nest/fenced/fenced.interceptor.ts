import {
  Inject,
  Injectable,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Observable } from 'rxjs';
import { FencedUsageError, isRedlockError, quoteKeys } from '../../core/errors.ts';
import type { Caller } from '../../core/events.ts';
import type { Lock } from '../../core/lock.ts';
import type { RedlockHost } from '../redlock-host.ts';
import { LockService } from '../../locks/lock-service.ts';
import { calledBy } from '../../core/holding/reentrancy.ts';
import { callOption } from '../made-keys.ts';
import { REDLOCK_HOST } from '../redlock.constants.ts';
import type { SectionOptions } from '../../locks/section.ts';
import type { FencedDefinition } from './fenced-metadata.ts';

/**
 * Takes the lock of a call, keeps it extended while the method runs, and releases it. Every method under `@Fenced` calls it by
 * itself; it need not be bound.
 */
// Bound to itself, because Nest lets a test override only interceptors that are bound: the start refuses that.
@UseInterceptors(FencedInterceptor)
@Injectable()
export class FencedInterceptor implements NestInterceptor {
  /** Its own, because a test that replaces the injected one means the calls of its classes. */
  private readonly locks = new LockService(this.host);

  constructor(@Inject(REDLOCK_HOST) private readonly host: RedlockHost) {}

  /** Bound by hand (`@UseInterceptors`) it passes every call through: a method under `@Fenced` takes its lock itself. */
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }

  /**
   * Runs one call of a method under `@Fenced`.
   *
   * @param args of the call; the token and the signal are written into them
   * @param body the method itself with these arguments
   * @param instance that it is called on
   */
  async run(
    definition: FencedDefinition,
    args: unknown[],
    body: () => unknown,
    instance?: object,
  ): Promise<unknown> {
    let isWaiting = true;
    let options: SectionOptions | undefined;
    let keys: readonly string[] = [];
    const begin = (lock: Lock) => {
      isWaiting = false;
      writeParameters(definition, args, lock);
      return body();
    };
    try {
      // A caller forged what stands there: not even the key function may see it.
      writeParameters(definition, args, undefined);
      keys = definition.keysOf(args);
      this.refuseInTransaction(definition, keys);
      options = optionsOf(definition, args, instance);
      return await this.locks.withLock(keys, begin, options);
    } catch (error) {
      // The caller gets its own reason, whatever it is.
      if (options?.signal?.aborted === true && options.signal.reason === error) throw error;
      // A busy lock inside the method is the method's own error: half of its work may be done. So is that of another call.
      const isRefused = isWaiting && isRefusalOf(keys, error);
      if (isRefused && definition.skipWhenBusy) return undefined;
      locateError(error, definition.where);
      throw error;
    }
  }

  private refuseInTransaction(definition: FencedDefinition, keys: readonly string[]): void {
    if (definition.allowInTransaction || this.host.isInTransaction?.() !== true) return;
    // A lock held around the transaction outlives the commit.
    if (this.locks.holds(keys)) return;
    throw new FencedUsageError(
      `${definition.where}: @Fenced was called inside an open transaction. The lock ${quoteKeys(keys)} would be released before the commit, and the next holder would read old data. Call it outside of the transaction (put @Fenced above @Transactional, on the method that begins it), or set allowInTransaction: true if the method opens an independent transaction (REQUIRES_NEW).`,
      keys,
    );
  }
}

/** Says whether these very keys, and not those of another call, are busy, or are not locked because the application shuts down. */
function isRefusalOf(keys: readonly string[], error: unknown): boolean {
  if (!isRedlockError(error) || !['LOCK_BUSY', 'REDLOCK_CLOSED'].includes(error.code)) return false;
  const own = new Set(keys);
  return error.keys.length === own.size && error.keys.every((key) => own.has(key));
}

/** Who calls, as calls attach to each other: a method of one instance, since another one may be of another request. */
const attachingCallers = new WeakMap<object, Map<FencedDefinition, Caller>>();

function attachingCaller(definition: FencedDefinition, instance: object): Caller {
  const callers = attachingCallers.get(instance) ?? new Map<FencedDefinition, Caller>();
  attachingCallers.set(instance, callers);
  const caller = callers.get(definition) ?? { ...definition.caller };
  callers.set(definition, caller);
  return caller;
}

/** The options of the decorator are one object, so that they are worked out once; a signal is of one call. */
function optionsOf(
  definition: FencedDefinition,
  args: unknown[],
  instance: object | undefined,
): SectionOptions {
  const { lockOptions, signalOf, where, caller } = definition;
  const signal = signalOf && callOption(() => signalOf(...args), "the option 'signal'", where);
  if (instance && lockOptions.onBusy === 'attach')
    return calledBy(attachingCaller(definition, instance), {
      ...lockOptions,
      ...(signal && { signal }),
    });
  return signal === undefined ? lockOptions : calledBy(caller, { ...lockOptions, signal });
}

function writeParameters(
  { tokenParameters, signalParameters }: FencedDefinition,
  args: unknown[],
  lock: Lock | undefined,
): void {
  for (const index of tokenParameters) args[index] = lock?.token;
  for (const index of signalParameters) args[index] = lock?.signal;
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
  // Frames after an `await` are those of the callers that wait for the promise.
  const here: { stack?: string } = {};
  Error.captureStackTrace?.(here, locateError);
  const frames = (here.stack ?? '').split('\n').slice(2);
  // Node runs promises between timers in frames of its own, which the error may have as well.
  const callers = frames.filter((frame) => !frame.includes('(node:internal/'));
  const [caller] = callers;
  if (caller !== undefined && !stack.includes(caller)) stack = [stack, ...callers].join('\n');
  error.stack = stack;
}
