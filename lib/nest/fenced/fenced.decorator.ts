import { FencedUsageError } from '../../core/errors.ts';
import { TEST_LINES } from '../redlock.constants.ts';
import { checkFencedKey, compileFencedKey, type FencedKey } from '../made-keys.ts';
import {
  copyAppearance,
  injectRunner,
  markFenced,
  methodName,
  runnerOf,
  type FencedDefinition,
} from './fenced-metadata.ts';
import {
  resolveFencedOptions,
  type FencedDecorator,
  type FencedOptions,
} from './fenced-options.ts';
import { locateError } from './fenced.interceptor.ts';
import { lockParametersOf } from './lock-parameters.ts';

type Method = (...args: any[]) => unknown;

/**
 * Holds a distributed lock while the method runs, until the promise it returns settles. Works on any method of any class
 * that Nest builds, also when it is called as `this.method()`. The body never runs unlocked.
 *
 * The key is a function of the arguments, a template (`'seat:{0}'`, `'{0.id}'`), or several templates for one lock on all
 * of them. Mark a parameter with `@FencingToken()` to receive the token for the resource, and one with `@LockSignal()` to
 * receive the signal that aborts when the lock is lost.
 *
 * @example
 * ```ts
 * @Fenced('seat:{0}', { wait: '5s' })
 * async book(seatId: string, @FencingToken() token = fencingToken()): Promise<void> {
 *   await this.fence.transaction(token, (client) => client.query('UPDATE seat SET taken = true'));
 * }
 * ```
 *
 * The decorated method rejects with
 * - `LockBusyError` when another holder kept the lock for the whole `wait` (or resolves undefined with `onBusy: 'skip'`),
 * - `QuorumUnavailableError` when too few servers answered,
 * - `StaleTokenError` when `claim: true` finds that a newer holder reached the resource; the method did not run,
 * - `LockLostError` when it finished although the lock was lost meanwhile, and no fence has accepted the token (see `onLost`),
 * - `FencedUsageError` when the instance was not built by Nest, the key is empty, or held already (unless `nested: 'join'`), or a
 *   transaction is open,
 * - its own errors, unchanged.
 *
 * @throws FencedUsageError at decoration on a static method, an accessor, or a method decorated twice
 * @throws RedlockConfigError at decoration when an option is invalid
 */
export function Fenced<
  const Key extends FencedKey,
  const Options extends FencedOptions = FencedOptions,
>(key: Key, options?: Options): FencedDecorator<Key, Options> {
  checkFencedKey(key);
  return (target, propertyKey, descriptor: PropertyDescriptor) => {
    const where = methodName(target, propertyKey);
    try {
      const fault = faultOf(target, propertyKey, descriptor);
      if (fault !== undefined) throw new FencedUsageError(`${where} ${fault}`);
      const original = descriptor.value as Method;
      const parameters = lockParametersOf(target, propertyKey);
      const keysOf = compileFencedKey(key, where);
      const caller =
        typeof key === 'function' ? { where } : { where, template: [key].flat().join() };
      const definition: FencedDefinition = {
        where,
        caller,
        keysOf,
        ...parameters,
        ...resolveFencedOptions(options ?? {}, caller),
      };
      markFenced(target, propertyKey, definition);
      injectRunner(target);
      const wrapper = function (this: object | undefined, ...args: unknown[]): Promise<unknown> {
        // A test double may be anything, and return anything.
        const outcome = runnerOf(this)?.run?.(
          definition,
          args,
          () => original.apply(this, args),
          this,
        );
        if (typeof outcome?.then === 'function') return outcome;
        return Promise.reject(notRun(where, this, target));
      };
      copyAppearance(original, wrapper);
      descriptor.value = wrapper;
    } catch (error) {
      locateError(error, where);
      throw error;
    }
  };
}

/** What stands there in place of a method of instances, and what to do; undefined where it is one. */
function faultOf(
  target: object,
  key: string | symbol | { readonly private?: boolean },
  descriptor: PropertyDescriptor | undefined,
): string | undefined {
  if (typeof key === 'object')
    return key.private
      ? 'is private by its #: use the keyword private instead.'
      : 'is under a standard decorator: set "experimentalDecorators": true, which Nest needs as well.';
  if (typeof target === 'function') return 'is static: @Fenced is for methods of instances.';
  if (descriptor === undefined)
    return `is a property, such as an arrow function: write async ${String(key)}() { … }.`;
  const isMethod = typeof descriptor.value === 'function';
  return isMethod ? undefined : 'is a getter or a setter: @Fenced is for methods.';
}

/** Says why the method at `target` did not run on `self`. */
function notRun(where: string, self: object | undefined, target: object): FencedUsageError {
  const method = where.slice(where.indexOf('.') + 1);
  let reason =
    'was called on an instance that Nest did not build, or in its constructor. Register the class itself as a provider; a unit test builds it with Test.createTestingModule.';
  if (runnerOf(self) !== undefined) reason = `was given no locks. ${TEST_LINES}`;
  else if (!Object.prototype.isPrototypeOf.call(target, self ?? {}))
    reason = `was called without its \`this\`. Pass (x) => service.${method}(x) instead of service.${method}.`;
  const error = new FencedUsageError(`${where} ${reason} The method was not run.`);
  error.where = where;
  return error;
}
