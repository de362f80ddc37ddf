import { RedlockConfigError } from '../core/errors.ts';
import { checkOptionNames, kindOf } from '../core/options/option-names.ts';
import { durationMs, type Duration } from '../core/options/duration.ts';
import type { FenceKeys, FenceOptions, FenceTransactionOptions, IsolationLevel } from './fence.ts';

/** Of every fence in an SQL database. */
export const SQL_FENCE_OPTIONS = ['table', 'maxAge', 'onStale', 'onEvent'];

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

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];

const TRANSACTION_OPTIONS = [
  'keys',
  'isolationLevel',
  'attempts',
  'lockTimeout',
  'idleInTransactionTimeout',
] as const;

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
 * @throws RedlockConfigError when they are no object, have another name, or a value that is none of it
 */
export function transactionOptions(
  options: FenceTransactionOptions | undefined,
): TransactionOptions {
  if (options === undefined) return NONE;
  checkOptionNames('fence.transaction', options, TRANSACTION_OPTIONS);
  const { attempts = DEFAULT_ATTEMPTS, isolationLevel } = options;
  const { keys, lockTimeout, idleInTransactionTimeout } = options;
  if (!Number.isInteger(attempts) || attempts < 1)
    throw new RedlockConfigError('attempts', attempts, 'give a whole number from 1');
  if (isolationLevel !== undefined && !LEVELS.includes(isolationLevel)) refuseLevel(isolationLevel);
  return {
    attempts,
    ...(keys !== undefined && { keys }),
    ...(isolationLevel !== undefined && { isolationLevel }),
    ...limit('lockTimeout', lockTimeout),
    ...limit('idleInTransactionTimeout', idleInTransactionTimeout),
  };
}

function limit<Name extends string>(
  name: Name,
  value: Duration | undefined,
): { [name in Name]?: number } {
  return value === undefined
    ? {}
    : ({ [name]: durationMs(name, value, 1) } as { [name in Name]: number });
}

function refuseLevel(level: unknown): never {
  const fix = "give 'read committed', 'repeatable read' or 'serializable'";
  throw new RedlockConfigError('isolationLevel', level, fix);
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** How much older than its `maxAge` a token is when its row may go: the clock of the database may go back by as much. */
export const MARGIN_MS = HOUR_MS;

/**
 * Milliseconds; undefined when the fence admits tokens of every age.
 * @throws RedlockConfigError
 */
export function maxAgeOf({ maxAge }: Pick<FenceOptions, 'maxAge'>): number | undefined {
  if (maxAge === undefined) return undefined;
  const text = typeof maxAge === 'string' ? maxAge : '';
  const [, count, unit] = /^(\d+(?:\.\d+)?)([hd])$/.exec(text) ?? [];
  const written = Number(count) * (unit === 'd' ? DAY_MS : HOUR_MS);
  const ageMs = Math.round(typeof maxAge === 'number' ? maxAge : written);
  if (ageMs >= HOUR_MS && Number.isSafeInteger(ageMs * 1_000)) return ageMs;
  const fix = "give milliseconds, or a text such as '36h' or '30d', from '1h'";
  throw new RedlockConfigError('maxAge', maxAge, fix);
}
