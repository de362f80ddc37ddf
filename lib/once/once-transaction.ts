import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { FencedUsageError } from '../core/errors.ts';

const PARAMETERS = Symbol('nestjs-fenced-lock/once-transaction-parameters');

/** The open transaction of each request of a handler under `@Idempotent`. */
export const transactionOfRequest = new WeakMap<object, unknown>();

/** Gives a route that transaction. Elsewhere, Nest would take the other parameters for such that have decorators, too. */
export const FromRequest = createParamDecorator((_data: unknown, context: ExecutionContext) =>
  transactionOfRequest.get(context.switchToHttp().getRequest<object>()),
);

/**
 * Marks the parameter of a method under `@Once` or `@Idempotent` that receives the transaction, in which the result is stored as well.
 * What a caller passes there is replaced. Declare it last, with {@link onceTransaction} as its default: callers leave it out.
 *
 * @example
 * ```ts
 * @Once('pay:{0.id}')
 * async pay(order: { id: string }, @OnceTransaction() tx: PoolClient = onceTransaction()) {
 *   await tx.query('INSERT INTO payment VALUES ($1)', [order.id]);
 * }
 * ```
 */
export function OnceTransaction(): ParameterDecorator {
  return (target, propertyKey, index) => {
    const indices = [...transactionParametersOf(target, propertyKey!), index];
    Reflect.defineMetadata(PARAMETERS, indices, target, propertyKey!);
  };
}

/**
 * The default of a parameter under `@OnceTransaction()`, and nothing for the body of a method. It is evaluated only where the call is not
 * done once, and then fails. In a unit test pass a transaction.
 *
 * @throws FencedUsageError always
 */
export function onceTransaction(): never {
  throw new FencedUsageError(
    'onceTransaction() was evaluated, and gives no value: it is only the default of a parameter of a method under @Once or @Idempotent, @OnceTransaction() tx = onceTransaction(). In a unit test, pass a transaction.',
  );
}

/** The parameters of this very method, not of one it overrides. */
export function transactionParametersOf(
  target: object,
  propertyKey: string | symbol,
): readonly number[] {
  return (Reflect.getOwnMetadata(PARAMETERS, target, propertyKey) as number[] | undefined) ?? [];
}
