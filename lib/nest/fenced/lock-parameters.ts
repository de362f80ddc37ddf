import { FencedUsageError } from '../../core/errors.ts';
import type { FencingToken as Token } from '../../core/fencing-token.ts';

const TOKEN_PARAMETERS = Symbol.for('nestjs-fenced-lock/token-parameters');
const SIGNAL_PARAMETERS = Symbol.for('nestjs-fenced-lock/signal-parameters');

/**
 * The fencing token of a held lock: `value` grows with every grant of a key. Hand it to the resource, which rejects a
 * token older than the newest it has seen.
 */
export type FencingToken = Token;

/**
 * Marks the parameter of a method under `@Fenced` or `@FencedJob` that receives the fencing token. What a caller passes there is
 * replaced. Declare it last, with {@link fencingToken} as its default: callers leave it out, and the method never sees undefined.
 *
 * @example
 * ```ts
 * @Fenced('seat:{0}')
 * async book(seatId: string, @FencingToken() token = fencingToken()): Promise<void> {
 *   await this.fence.transaction(token, (client) => client.query('UPDATE seat SET taken = true'));
 * }
 * ```
 */
export function FencingToken(): ParameterDecorator {
  return marking(TOKEN_PARAMETERS);
}

/**
 * Marks the parameter of a method under `@Fenced` that receives the signal of the lock. It aborts when the lock is lost, with the
 * `LockLostError` as its reason: hand it to `fetch`, timers and streams, so that the work stops. What a caller passes there is
 * replaced.
 *
 * @example
 * ```ts
 * @Fenced('report:{0}')
 * async send(id: string, @LockSignal() signal = lockSignal()): Promise<void> {
 *   await fetch(this.urlOf(id), { method: 'POST', signal });
 * }
 * ```
 */
export function LockSignal(): ParameterDecorator {
  return marking(SIGNAL_PARAMETERS);
}

/**
 * The default of a parameter under `@FencingToken()`, and nothing for the body of a method: there use the parameter. It is evaluated
 * only where no lock was taken for the call, and then fails, so that the method does nothing without a lock. In a unit test pass
 * `createFencingToken` of `nestjs-fenced-lock/testing`.
 *
 * @throws FencedUsageError always
 */
export function fencingToken(): Token {
  throw evaluated('fencingToken()', '@FencingToken()', 'token');
}

/**
 * The default of a parameter under `@LockSignal()`, as {@link fencingToken} is that of a token. In a unit test pass
 * `new AbortController().signal`.
 *
 * @throws FencedUsageError always
 */
export function lockSignal(): AbortSignal {
  throw evaluated('lockSignal()', '@LockSignal()', 'signal');
}

function evaluated(name: string, decorator: string, parameter: string): FencedUsageError {
  return new FencedUsageError(
    `${name} was evaluated, and gives no value: it is only the default of a parameter of a method under @Fenced, ${decorator} ${parameter} = ${name}. Use that parameter, or lock.${parameter} in the work of withLock; in a unit test, pass a value.`,
  );
}

function marking(kind: symbol): ParameterDecorator {
  return (target, propertyKey, index) => {
    // Nest can't make a parameter of a constructor, which has no name; its default fails.
    const indices = [...indicesOf(kind, target, propertyKey!), index];
    Reflect.defineMetadata(kind, indices, target, propertyKey!);
  };
}

/** The parameters of a method that are filled in by the lock. */
export interface LockParameters {
  readonly tokenParameters: readonly number[];
  readonly signalParameters: readonly number[];
}

/** The parameters of this very method, not of one it overrides. */
export function lockParametersOf(target: object, propertyKey: string | symbol): LockParameters {
  return {
    tokenParameters: indicesOf(TOKEN_PARAMETERS, target, propertyKey),
    signalParameters: indicesOf(SIGNAL_PARAMETERS, target, propertyKey),
  };
}

/** Takes the parameters for the token of a job: a lock around the method fills in none of them, and none of them needs a lock. */
export function takeTokenParameters(
  target: object,
  propertyKey: string | symbol,
): readonly number[] {
  const { tokenParameters } = lockParametersOf(target, propertyKey);
  Reflect.deleteMetadata(TOKEN_PARAMETERS, target, propertyKey);
  return tokenParameters;
}

function indicesOf(kind: symbol, target: object, propertyKey: string | symbol): readonly number[] {
  return (Reflect.getOwnMetadata(kind, target, propertyKey) as number[] | undefined) ?? [];
}
