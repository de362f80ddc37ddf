import { createHash } from 'node:crypto';
import { FencedUsageError } from '../core/errors.ts';

/**
 * JSON that gives back what went in.
 *
 * @throws FencedUsageError for what JSON would change or drop without a word, such as a Date
 */
export function exactJson(result: unknown): string {
  return written(result, true);
}

/**
 * A digest by which equal values are known: the order of properties does not count, nor does a property that is undefined.
 *
 * @throws FencedUsageError for what has nothing that could be compared, such as a function
 */
export function fingerprintOf(payload: unknown): string {
  return createHash('sha256').update(written(payload, false)).digest('hex');
}

function refuse(path: string, what: string, isExact: boolean): never {
  throw new FencedUsageError(
    isExact
      ? `The result${path} is ${what}, which JSON can't carry, so a later call would get something else. Return texts, numbers, booleans, null, arrays and plain objects. Nothing was written.`
      : `The payload${path} is ${what}, which can't be compared with that of another call. Give something else as the option 'payload'. Nothing was run.`,
  );
}

/** A request can be nested deeper than the stack is high. */
const DEEPEST_PAYLOAD = 500;

/** @param around the objects that this value is in */
function written(
  value: unknown,
  isExact: boolean,
  path = '',
  around: readonly object[] = [],
): string {
  if (typeof value === 'object' && value !== null)
    return writtenObject(value, isExact, path, around);
  if (value === null || typeof value === 'string' || typeof value === 'boolean')
    return JSON.stringify(value);
  if (Number.isFinite(value)) return JSON.stringify(value);
  if (typeof value === 'function' || typeof value === 'symbol')
    refuse(path, `a ${typeof value}`, isExact);
  const shown = String(value as number | bigint | undefined);
  if (isExact) refuse(path, shown, isExact);
  return value === undefined ? 'null' : `"${typeof value} ${shown}"`;
}

function writtenObject(
  value: object & { readonly toJSON?: unknown },
  isExact: boolean,
  path: string,
  around: readonly object[],
): string {
  if (around.includes(value)) refuse(path, 'an object that is in itself', isExact);
  if (!isExact && around.length === DEEPEST_PAYLOAD)
    refuse('', `nested more than ${DEEPEST_PAYLOAD} levels deep`, isExact);
  const part = (name: string, inner: unknown) =>
    written(inner, isExact, path + name, [...around, value]);
  if (Array.isArray(value))
    return `[${Array.from(value, (item, index) => part(`[${index}]`, item)).join()}]`;
  const prototype: unknown = Object.getPrototypeOf(value);
  // An object of another realm has another Object.prototype.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  const kind = `an object of the class ${value.constructor?.name || '(anonymous)'}`;
  if (isExact && !isPlain) refuse(path, kind, isExact);
  if (!isExact && typeof value.toJSON === 'function') return part('', value.toJSON());
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  // It may differ from others in what nobody outside sees: a Map, or private fields.
  if (!isPlain && fields.length === 0) refuse(path, `${kind} without properties`, isExact);
  if (!isExact) fields.sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${part(`.${name}`, field)}`).join()}}`;
}
