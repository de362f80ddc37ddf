import { FencedUsageError } from '../../core/errors.ts';
import { compileFencedKey, type FencedKey } from '../made-keys.ts';
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
 * - `LockLostError` when it finished although the lock was lost meanwhile (unless `onLost: 'ignore'`),
 * - `FencedUsageError` when the instance was not built by Nest, the key is empty, or held already (unless `nested: 'join'`), or a
 *   transaction is open,
 * - its own errors, unchanged.
 *
 * @throws FencedUsageError at decoration on a static or generator method, an accessor, or a method decorated twice
 * @throws RedlockConfigError at decoration when an option is invalid
 */
export function Fenced<
  const Key extends FencedKey,
  const Options extends FencedOptions = FencedOptions,
>(key: Key, options?: Options): FencedDecorator<Key, Options> {
  return (target, propertyKey, descriptor: PropertyDescriptor) => {
    const where = methodName(target, propertyKey);
    try {
      const original = descriptor?.value as Method;
      const refusal = refusalOf(target, original);
      if (refusal !== undefined) throw new FencedUsageError(`${where} ${refusal}`);
      const parameters = lockParametersOf(target, propertyKey);
      const keysOf = compileFencedKey(key, where);
      const definition: FencedDefinition = {
        where,
        keysOf,
        ...parameters,
        ...resolveFencedOptions(options ?? {}, where),
      };
      markFenced(target, propertyKey, definition);
      injectRunner(target);
      const wrapper = function (this: object | undefined, ...args: unknown[]): Promise<unknown> {
        const runner = runnerOf(this);
        if (typeof runner?.run !== 'function') return Promise.reject(withoutRunner(where, runner));
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

function refusalOf(target: object, method: unknown): string | undefined {
  if (typeof target === 'function')
    return 'is static, or under a standard decorator: @Fenced is a legacy decorator (experimentalDecorators) for instance methods, to which Nest hands the lock service.';
  if (typeof method !== 'function') return 'is not a method: @Fenced works on methods only.';
  if (Object.prototype.toString.call(method).endsWith('GeneratorFunction]'))
    return 'is a generator: its body runs after it returned, without the lock. Return a promise.';
  return undefined;
}

function withoutRunner(where: string, runner: unknown): FencedUsageError {
  const why =
    runner === undefined
      ? 'was called on an instance that Nest did not build (or on a wrapper of one), from its constructor, or without `this`: there is no lock service to lock with. Register the class itself as a provider'
      : 'has no lock to run with, because a test replaced what Nest injects for @Fenced. Import RedlockModule.forRoot({ nodes: createMemoryNodes(3) }) there';
  const error = new FencedUsageError(`${where} ${why}. The method was not run.`);
  error.where = where;
  return error;
}
