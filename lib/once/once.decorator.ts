import { FencedUsageError } from '../core/errors.ts';
import { oneKey } from '../core/options/lock-keys.ts';
import { callback, checkOptions } from '../core/options/option-names.ts';
import { copyAppearance, injectHidden, methodName } from '../nest/fenced/fenced-metadata.ts';
import { locateError } from '../nest/fenced/fenced.interceptor.ts';
import { calledBy } from '../core/holding/reentrancy.ts';
import { callOption, checkFencedKey, compileFencedKey } from '../nest/made-keys.ts';
import { transactionParametersOf } from './once-transaction.ts';
import { ONCE_OPTIONS, OnceService, type OnceOptions } from './once.service.ts';

type PromiseMethod = (...args: any[]) => Promise<any>;

/** The options of {@link Once}. */
export interface OnceMethodOptions extends Omit<OnceOptions, 'signal'> {
  /** Gives what a later call must have as well, from the arguments of the call. @default all arguments */
  readonly payload?: (...args: any[]) => unknown;
}

/** Hidden property that receives the service. Nest prints its description when there is none. */
const ONCE_PROPERTY = Symbol('@Once: add OnceService to the providers of this module');

/**
 * Runs the method once for each key: in a transaction of the fence, which it gets in the parameter under `@OnceTransaction()`, and
 * which stores its result as well. Later calls get that result, and the method does not run. See {@link OnceService.run}, which is also
 * the form for a method that does something slow outside of the database.
 *
 * What it does in `tx` and its result are committed together. What it does elsewhere, also in a repository with a connection of its own,
 * is not part of that.
 *
 * @param key a template such as `'pay:{0.id}'`, or a function of the arguments
 *
 * @example
 * ```ts
 * @Once('pay:{0.id}', { keep: '24h' })
 * async pay(order: { id: string; cents: number }, @OnceTransaction() tx: PoolClient = onceTransaction()) {
 *   await tx.query('INSERT INTO payment VALUES ($1, $2)', [order.id, order.cents]);
 *   return { paid: order.cents };
 * }
 * ```
 *
 * The decorated method rejects with what {@link OnceService.run} rejects with, and its own errors, unchanged.
 *
 * @throws FencedUsageError at decoration when there is no key
 * @throws RedlockConfigError at decoration when an option is invalid
 */
export function Once(
  key: string | ((...args: any[]) => string),
  options: OnceMethodOptions = {},
): <Method extends PromiseMethod>(
  target: object,
  propertyKey: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void {
  checkFencedKey(key, '@Once');
  const known = { ...ONCE_OPTIONS, payload: callback };
  const { payload, keep, keepErrors, ...lock } = checkOptions('@Once', known, options);
  return (target, propertyKey, descriptor: PropertyDescriptor) => {
    const where = methodName(target, propertyKey);
    const original = descriptor.value as PromiseMethod;
    const keysOf = compileFencedKey(key, where);
    const caller = typeof key === 'string' ? { where, template: key } : { where };
    const section = calledBy(caller, lock);
    const transactions = transactionParametersOf(target, propertyKey);
    injectHidden(target, ONCE_PROPERTY, OnceService);
    const wrapper = async function (
      this: { readonly [ONCE_PROPERTY]?: OnceService } | undefined,
      ...args: unknown[]
    ): Promise<unknown> {
      const once = this?.[ONCE_PROPERTY];
      if (!once)
        throw new FencedUsageError(
          `${where} was called without its \`this\`, or on an instance that Nest did not build. The method was not run.`,
        );
      try {
        // What a caller passes there is forged.
        for (const index of transactions) args[index] = undefined;
        const compared = payload
          ? callOption(() => payload(...args), "the option 'payload'", where)
          : withoutEnd(args);
        const work = (tx: unknown) => {
          for (const index of transactions) args[index] = tx;
          return original.apply(this, args);
        };
        const keys = keysOf(args);
        const call = { key: oneKey(keys as never), payload: compared, work, keep, keepErrors };
        return await once.call(call, section);
      } catch (error) {
        locateError(error, where);
        throw error;
      }
    };
    copyAppearance(original, wrapper);
    descriptor.value = wrapper;
  };
}

/** A caller may leave out the last arguments, or pass undefined for them. */
function withoutEnd(args: readonly unknown[]): unknown[] {
  return args.slice(0, args.findLastIndex((each) => each !== undefined) + 1);
}
