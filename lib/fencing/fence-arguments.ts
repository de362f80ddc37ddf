import { RedlockConfigError, FencedUsageError } from '../core/errors.ts';
import { checkOptionNames, kindOf } from '../core/options/option-names.ts';
import { checkOptions, choice, duration, number } from '../core/options/option-kinds.ts';
import type { FenceKeys, FenceTransactionOptions, IsolationLevel, PruneOptions } from './fence.ts';

/** Of every fence in an SQL database. */
export const SQL_FENCE_OPTIONS = ['table', 'onStale', 'onEvent'];

/**
 * What would otherwise fail in the first transaction, or be ignored: another object than the client, an option that there is not.
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

/** @throws RedlockConfigError about `option` for a listener that can't be called; none may be given */
export function checkListener(option: string, listener: unknown): void {
  if (listener !== undefined && typeof listener !== 'function') refuseListener(option, listener);
}

/** @throws RedlockConfigError */
export function refuseListener(option: string, listener: unknown): never {
  const fix = 'give a function, which is called when it happens';
  const shown = listener instanceof Promise ? 'a promise' : kindOf(listener);
  throw new RedlockConfigError(option, listener, fix, shown);
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
export function keysOf(call: string, options: FenceKeys | undefined): FenceKeys['keys'] {
  if (options === undefined) return undefined;
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

const NONE: TransactionOptions = { attempts: DEFAULT_ATTEMPTS };

/**
 * Read once: nothing may change what was checked, for the level stands in SQL as text.
 *
 * @throws RedlockConfigError when they are no object, or have another name or a wrong value
 */
export function transactionOptions(
  options: FenceTransactionOptions | undefined,
): TransactionOptions {
  if (options === undefined) return NONE;
  return { ...NONE, ...checkOptions('fence.transaction', TRANSACTION_OPTIONS, options) };
}

const DAY_MS = 86_400_000;

/** In 2001; what is smaller is no time in microseconds. */
export const FIRST_TIME = '1000000000000000';

/** @throws RedlockConfigError */
export function ageOf(options: Partial<PruneOptions> = {}): number {
  // What the conformance kit gives has a floor, too.
  if (!('floor' in Object(options))) checkOptionNames('fence.prune', options, ['olderThan']);
  const { olderThan } = options;
  const text = typeof olderThan === 'string' ? olderThan : '';
  const [, count, unit] = /^(\d+(?:\.\d+)?)([hd])$/.exec(text) ?? [];
  const written = Number(count) * (unit === 'd' ? DAY_MS : DAY_MS / 24);
  const ageMs = Math.round(typeof olderThan === 'number' ? olderThan : written);
  if (ageMs >= DAY_MS && Number.isSafeInteger(ageMs)) return ageMs;
  const fix = "give milliseconds, or a text such as '36h' or '30d', from '1d': clocks may differ";
  throw new RedlockConfigError('olderThan', olderThan, fix);
}

/**
 * @param subject what can't be pruned, such as a table
 * @param key one that has a number that is no time
 */
export function counterRefusal(subject: string, key: string): FencedUsageError {
  const why = `its key '${key}' has the token of a counter, which tells no age. Prune only what the quorum numbers.`;
  return pruneRefusal(subject, why);
}

export function pruneRefusal(subject: string, why: string): FencedUsageError {
  return new FencedUsageError(`${subject} can't be pruned: ${why} Nothing was deleted.`);
}
