import { RedlockConfigError } from '../core/errors.ts';
import { durationMs, type Duration } from '../core/options/duration.ts';
import {
  callback,
  checkOptionNames,
  checkOptions,
  choice,
  duration,
  kindOf,
  number,
  type OptionKind,
  type OptionTable,
  type OptionValues,
  valuesOf,
} from '../core/options/option-names.ts';
import type { FenceKeys, FenceOptions, FenceTransactionOptions } from './fence.ts';

const HOUR_MS = 3_600_000;
/** JavaScript tells apart each number of microseconds up to here. */
const MAX_AGE_MS = Math.floor(Number.MAX_SAFE_INTEGER / 1_000);

/** The time beyond `maxAge` after which the row of a token may go: the clock of the database may go back by as much. */
export const MARGIN_MS = HOUR_MS;

/** The options of every fence; the age in milliseconds. */
export const FENCE_OPTIONS = {
  maxAge: ((value, option) =>
    durationMs(option, value as Duration, HOUR_MS, MAX_AGE_MS)) as OptionKind<number>,
  onStale: callback as OptionKind<NonNullable<FenceOptions['onStale']>>,
  onEvent: callback,
};

/** A text of this form. */
export function text(form: RegExp, fix: string): OptionKind<string> {
  return (value, option) => {
    if (typeof value === 'string' && form.test(value)) return value;
    throw new RedlockConfigError(option, value, fix);
  };
}

export const DEFAULT_TABLE = 'redlock_fence';

/** The options of every fence in an SQL database. */
export const SQL_FENCE_OPTIONS = {
  ...FENCE_OPTIONS,
  // The name stands in SQL as it is, so one that would need quotes is refused.
  table: text(
    /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/,
    "use letters, digits and '_', with at most one schema in front ('app.redlock_fence')",
  ),
};

/**
 * Refuses what would fail in the first transaction, or be ignored: another object than the client, an option that there is not.
 *
 * @param needs the right client, for messages
 * @param own the options beside those of every fence in an SQL database
 * @returns the values of `own`; the fence itself looks at those of the others
 * @throws RedlockConfigError
 */
export function checkFenceArguments<Own extends OptionTable>(
  factory: string,
  client: unknown,
  methods: readonly string[],
  needs: string,
  options: object = {},
  own = {} as Own,
): OptionValues<Own> {
  if (!hasMethods(client, methods)) refuseClient(factory, client, needs);
  checkOptionNames(factory, options, Object.keys({ ...SQL_FENCE_OPTIONS, ...own }));
  return valuesOf(own, options);
}

/** @throws RedlockConfigError, which does not show the client: it may have a password */
export function refuseClient(factory: string, client: unknown, needs: string): never {
  const shown = `made over ${kindOf(client)}`;
  throw new RedlockConfigError(factory, undefined, `it needs ${needs}`, shown);
}

export function hasMethods(value: unknown, methods: readonly string[]): boolean {
  const known = value as Readonly<Record<string, unknown>> | null | undefined;
  return methods.every((name) => typeof known?.[name] === 'function');
}

export const DEFAULT_ATTEMPTS = 10;

const KEYS = { keys: (value: unknown) => value as readonly string[] };

const TRANSACTION_OPTIONS = {
  ...KEYS,
  isolationLevel: choice('read committed', 'repeatable read', 'serializable'),
  attempts: number(1, Number.MAX_SAFE_INTEGER),
  lockTimeout: duration(1),
  idleInTransactionTimeout: duration(1),
};

/** The keys that the options of a call name. @throws RedlockConfigError for another option */
export function checkedKeys(call: string, options: FenceKeys = {}): FenceKeys['keys'] {
  return checkOptions(call, KEYS, options).keys;
}

/** The options of a transaction, with its times in milliseconds. */
export type TransactionOptions = OptionValues<typeof TRANSACTION_OPTIONS> & {
  readonly attempts: number;
};

/** Reads them once: nothing may change what was checked, for the level stands in SQL as text. @throws RedlockConfigError */
export function transactionOptions(options: FenceTransactionOptions = {}): TransactionOptions {
  const checked = checkOptions('fence.transaction', TRANSACTION_OPTIONS, options);
  return { attempts: DEFAULT_ATTEMPTS, ...checked };
}
