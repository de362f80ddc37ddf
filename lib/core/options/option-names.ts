import { RedlockConfigError } from '../errors.ts';
import { durationMs, type Duration } from './duration.ts';

/**
 * Refuses unknown names. Values are not shown: a misplaced one may be a password. Messages name what takes the options, and the
 * option whose value they are.
 *
 * @throws RedlockConfigError
 */
export function checkOptionNames(
  taker: string,
  options: unknown,
  known: readonly string[],
  option = 'options',
): void {
  const takes = () => `${taker} takes ${known.join(', ')}`;
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new RedlockConfigError(option, undefined, `give an object: ${takes()}`, kindOf(options));
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    const path = option === 'options' ? name : `${option}.${name}`;
    throw new RedlockConfigError(path, undefined, `it is unknown; ${takes()}`, 'given');
  }
}

export function kindOf(value: unknown): string {
  if (value == null) return String(value);
  if (value === '') return 'an empty string';
  if (Array.isArray(value)) return 'an array';
  if (value instanceof Promise) return 'a promise';
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`;
}

/** Gives the value of an option as it is used, or throws a RedlockConfigError. */
export type OptionKind<Value = unknown> = (value: unknown, option: string) => Value;

export type OptionTable = Readonly<Record<string, OptionKind>>;

export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]?: ReturnType<Table[Name]>;
};

/** Checks the names and the values of the options of one call. @throws RedlockConfigError */
export function checkOptions<Table extends OptionTable>(
  taker: string,
  table: Table,
  options: object,
  option = 'options',
): OptionValues<Table> {
  checkOptionNames(taker, options, Object.keys(table), option);
  return valuesOf(table, options, option === 'options' ? '' : `${option}.`);
}

/** The values of those options that `table` has. @throws RedlockConfigError */
export function valuesOf<Table extends OptionTable>(
  table: Table,
  options: object,
  path = '',
): OptionValues<Table> {
  const given = options as Readonly<Record<string, unknown>>;
  const values: Record<string, unknown> = {};
  for (const name in table) {
    const value = given[name];
    if (value !== undefined) values[name] = table[name]!(value, path + name);
  }
  return values as OptionValues<Table>;
}

export function duration(minMs = 0): OptionKind<number> {
  return (value, option) => durationMs(option, value as Duration, minMs);
}

export function choice<const Value>(...allowed: readonly Value[]): OptionKind<Value> {
  const fix = `use ${allowed.map((each) => JSON.stringify(each)).join(' or ')}`;
  return (value, option) => {
    if (allowed.includes(value as Value)) return value as Value;
    throw new RedlockConfigError(option, value, fix);
  };
}

export const flag = choice(true, false);

export function number(min: number, max: number, isWhole = true): OptionKind<number> {
  const range = `from ${min} to ${max}`;
  const fix =
    min === max
      ? `give ${min}, the only possible value`
      : `give ${isWhole ? 'an integer' : 'a share'} ${range}`;
  return (value, option) => {
    const isIn = typeof value === 'number' && value >= min && value <= max;
    if (isIn && (!isWhole || Number.isInteger(value))) return value;
    throw new RedlockConfigError(option, value, fix);
  };
}

export const callback: OptionKind<(...args: any[]) => any> = (value, option) => {
  if (typeof value === 'function') return value as (...args: any[]) => any;
  throw new RedlockConfigError(option, value, 'give a function', kindOf(value));
};

export function having<Value>(method: string, fix: string): OptionKind<Value> {
  return (value, option) => {
    if (typeof (value as Record<string, unknown> | null)?.[method] === 'function')
      return value as Value;
    throw new RedlockConfigError(option, value, fix, kindOf(value));
  };
}
