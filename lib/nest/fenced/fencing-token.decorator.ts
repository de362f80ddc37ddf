import { FencedUsageError } from '../../core/errors.ts';
import type { FencingToken as Token } from '../../core/fencing-token.ts';

const TOKEN_PARAMETERS = Symbol.for('nestjs-fenced-lock/token-parameters');

/**
 * The fencing token of a held lock: `value` grows with every grant of a key. Hand it to the resource, which refuses a
 * token older than the newest it has seen.
 */
export type FencingToken = Token;

/**
 * Marks the parameter of a method under `@Fenced` that receives the fencing token. What a caller passes there is
 * replaced, so declare it last and optional, and leave it out in calls: `@FencingToken() token?: FencingToken`.
 *
 * @example
 * ```ts
 * @Fenced('seat:{0}')
 * async book(seatId: string, @FencingToken() token?: FencingToken) {
 *   await this.fence.transaction(token, (tx) => tx.query('UPDATE seat SET taken = true'));
 * }
 * ```
 * @throws FencedUsageError on constructor parameters
 */
export function FencingToken(): ParameterDecorator {
  return (target, propertyKey, index) => {
    if (propertyKey === undefined) {
      throw new FencedUsageError(
        '@FencingToken() is for parameters of methods under @Fenced: a constructor runs before any lock is held.',
      );
    }
    const indices = [...tokenParametersOf(target, propertyKey), index];
    Reflect.defineMetadata(TOKEN_PARAMETERS, indices, target, propertyKey);
  };
}

/** Indices of the parameters under `@FencingToken()` of this very method, not of one it overrides. */
export function tokenParametersOf(target: object, propertyKey: string | symbol): readonly number[] {
  return (
    (Reflect.getOwnMetadata(TOKEN_PARAMETERS, target, propertyKey) as number[] | undefined) ?? []
  );
}
