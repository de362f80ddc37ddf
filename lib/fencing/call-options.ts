import { RedlockConfigError } from '../core/errors.ts';
import { checkOptionNames, kindOf, meantBy } from '../core/options/option-names.ts';
import { durationMs, type Duration } from '../core/options/duration.ts';
import type { FenceKeys, FenceTransactionOptions, IsolationLevel } from './fence.ts';

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

/** Of a transaction, checked. */
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
  const meant = typeof level === 'string' ? meantBy(level.toLowerCase(), LEVELS) : undefined;
  throw new RedlockConfigError(
    'isolationLevel',
    level,
    "give 'read committed', 'repeatable read' or 'serializable'",
    meant === undefined ? kindOf(level) : `written so (did you mean '${meant}'?)`,
  );
}
