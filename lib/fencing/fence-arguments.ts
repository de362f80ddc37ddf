import { RedlockConfigError } from '../core/errors.ts';
import { durationMs } from '../core/options/duration.ts';
import {
  checkOptionNames,
  checkOptions,
  choice,
  duration,
  kindOf,
  number,
} from '../core/options/option-names.ts';
import type { FenceKeys, FenceOptions, FenceTransactionOptions, IsolationLevel } from './fence.ts';

/** Options of every fence in an SQL database. */
export const SQL_FENCE_OPTIONS = ['table', 'maxAge', 'onStale', 'onEvent'];

/**
 * Refuses what would fail in the first transaction, or be ignored: another object than the client, an option that there is not.
 *
 * @param factory the function that was called, for messages
 * @param client what it was given; it must have these methods
 * @param needs the right client, for messages
 * @param known the options that there are
 * @throws RedlockConfigError
 */
export function checkFenceArguments(
  factory: string,
  client: unknown,
  methods: readonly string[],
  needs: string,
  options: unknown = {},
  known: readonly string[] = SQL_FENCE_OPTIONS,
): void {
  if (!hasMethods(client, methods)) refuseClient(factory, client, needs);
  checkOptionNames(factory, options, known);
}

/** @throws RedlockConfigError, which does not show the client: it may have a password */
export function refuseClient(factory: string, client: unknown, needs: string): never {
  throw new RedlockConfigError(
    factory,
    undefined,
    `it needs ${needs}`,
    `made over ${kindOf(client)}`,
  );
}

export function hasMethods(value: unknown, methods: readonly string[]): boolean {
  const known = value as Readonly<Record<string, unknown>> | null | undefined;
  return methods.every((name) => typeof known?.[name] === 'function');
}

export const DEFAULT_ATTEMPTS = 10;

const TRANSACTION_OPTIONS = {
  keys: (value: unknown) => value as FenceKeys['keys'],
  isolationLevel: choice('read committed', 'repeatable read', 'serializable'),
  attempts: number(1, Number.MAX_SAFE_INTEGER),
  lockTimeout: duration(1),
  idleInTransactionTimeout: duration(1),
};

/**
 * The keys that the options of a call name.
 *
 * @param call what was called, for messages
 * @throws RedlockConfigError when they are no object, or have another name
 */
export function keysOf(call: string, options: FenceKeys = {}): FenceKeys['keys'] {
  checkOptionNames(call, options, ['keys']);
  return options.keys;
}

export interface TransactionOptions extends FenceKeys {
  readonly attempts: number;
  readonly isolationLevel?: IsolationLevel;
  /** Milliseconds, as the other one. */
  readonly lockTimeout?: number;
  readonly idleInTransactionTimeout?: number;
}

/**
 * Read once: nothing may change what was checked, for the level stands in SQL as text.
 *
 * @throws RedlockConfigError when they are no object, or have another name or a wrong value
 */
export function transactionOptions(options: FenceTransactionOptions = {}): TransactionOptions {
  const checked = checkOptions('fence.transaction', TRANSACTION_OPTIONS, options);
  return { attempts: DEFAULT_ATTEMPTS, ...checked };
}

const HOUR_MS = 3_600_000;
/** Microseconds are numbers that JavaScript tells apart from the next one. */
const MAX_AGE_MS = Math.floor(Number.MAX_SAFE_INTEGER / 1_000);

/** Age beyond its `maxAge` at which the row of a token may go: the clock of the database may go back by as much. */
export const MARGIN_MS = HOUR_MS;

/**
 * Milliseconds; undefined when the fence admits tokens of every age.
 * @throws RedlockConfigError
 */
export function maxAgeOf({ maxAge }: Pick<FenceOptions, 'maxAge'>): number | undefined {
  return maxAge === undefined ? undefined : durationMs('maxAge', maxAge, HOUR_MS, MAX_AGE_MS);
}
