import { FencedUsageError } from '../../core/errors.ts';
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
 * - `QuorumUnavailableError` when too few nodes could vote,
 * - `StaleTokenError` when `claim: true` finds that a newer holder reached the resource; the method did not run,
 * - `LockLostError` when it finished although the lock was lost meanwhile, and no fence has admitted the token (see `onLost`),
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
      const original = descriptor?.value as Method;
      if (typeof target === 'function' || typeof original !== 'function')
        throw new FencedUsageError(
          `${where} is static, no method, or under a standard decorator: @Fenced is for methods of instances, with experimentalDecorators.`,
        );
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
        const runner = runnerOf(this);
        if (typeof runner?.run !== 'function') return Promise.reject(withoutRunner(where));
        return runner.run(definition, args, () => original.apply(this, args));
      };
      copyAppearance(original, wrapper);
      descriptor.value = wrapper;
    } catch (error) {
      locateError(error, where);
      throw error;
    }
  };
}

function withoutRunner(where: string): FencedUsageError {
  const error = new FencedUsageError(
    `${where} was called on an instance that Nest did not build (or on a wrapper of one), in its constructor, or without \`this\`, or a test replaced what Nest injects: there are no locks to run with. Register the class itself as a provider, and import RedlockModule. The method was not run.`,
  );
  error.where = where;
  return error;
}
