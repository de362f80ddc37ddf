import { types } from 'node:util';
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
  refuseBare(key, options);
  return (target, propertyKey, descriptor: PropertyDescriptor) => {
    if (propertyKey === undefined) throw onClass(target);
    if (typeof propertyKey === 'object')
      throw new FencedUsageError(
        '@Fenced is a legacy decorator, as those of Nest are: set experimentalDecorators in tsconfig.json.',
      );
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
        if (runner === undefined) return Promise.reject(notBuiltByNest(where, this));
        if (typeof runner?.run !== 'function') return Promise.reject(replacedRunner(where));
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

/** Without parentheses the decorator gets what it decorates, and would replace nothing. */
function refuseBare(target: unknown, propertyKey: unknown): void {
  if (typeof target === 'function' && /^class\b/.test(Function.prototype.toString.call(target)))
    throw onClass(target);
  const isKey = typeof target !== 'object' || target === null || Array.isArray(target);
  if (isKey || (typeof propertyKey !== 'string' && typeof propertyKey !== 'symbol')) return;
  throw new FencedUsageError(
    `${methodName(target, propertyKey)}: @Fenced needs the key of its lock, such as @Fenced('report:{0}').`,
  );
}

function onClass(target: object): FencedUsageError {
  return new FencedUsageError(
    `${(target as { readonly name?: string }).name}: @Fenced works on methods: write @Fenced('report:{0}') above each method that needs the lock.`,
  );
}

function refusalOf(target: object, method: unknown): string | undefined {
  if (typeof target === 'function')
    return 'is static: @Fenced works on instance methods, because Nest hands the lock service to instances. Inject LockService where it is called.';
  if (typeof method !== 'function') return 'is not a method: @Fenced works on methods only.';
  if (Object.prototype.toString.call(method).endsWith('GeneratorFunction]'))
    return 'is a generator: its body runs after it returned, without the lock. Return a promise.';
  return undefined;
}

function notBuiltByNest(where: string, instance: object | undefined): FencedUsageError {
  const isWrapped =
    instance != null &&
    (types.isProxy(instance) || runnerOf(Object.getPrototypeOf(instance)) !== undefined);
  return usageError(
    where,
    isWrapped
      ? `was called on a wrapper of an instance (a Proxy, or Object.create of it), and Nest hands the lock service to the instance only. The method was not run. Call it on the instance: a proxy can return value.bind(target) from its get trap.`
      : `was called on an instance that Nest did not build, or from its constructor, or without 'this'. The method was not run: there is no lock service to lock with. Register the class itself as a provider (not 'new' or useFactory), with RedlockModule imported.`,
  );
}

function replacedRunner(where: string): FencedUsageError {
  return usageError(
    where,
    'has no lock to run with: what Nest injected for @Fenced, such as the double that useMocker made, has no run(). The method was not run. Import RedlockModule.forRoot({ nodes: createMemoryNodes(3) }) in the test, with createMemoryNodes of nestjs-fenced-lock/testing.',
  );
}

function usageError(where: string, what: string): FencedUsageError {
  const error = new FencedUsageError(`${where} ${what}`);
  error.where = where;
  return error;
}
