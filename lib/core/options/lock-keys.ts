import { FencedUsageError, quoteKeys } from '../errors.ts';
import { kindOf } from './option-names.ts';

export const MAX_KEYS = 1_000;
export const MAX_KEY_LENGTH = 1_024;
/** Names of markers, floors and queues, also those under a longer prefix: `lock:` and key `b:#marker` is the marker of `lock:b:`. */
export const RESERVED = /^#|#marker(:\w+)?$|#(probe|queue)$|#(floor|process):/;
/** Those, and the keys of slots, which are locks: people look at them, and only a call with permits takes one. */
const NOT_FOR_CALLS = new RegExp(`${RESERVED.source}|#slot:\\d+$`);
const LONE_SURROGATE = /[\uD800-\uDFFF]/u;

/**
 * The keys of one lock: sorted, without duplicates and frozen, so that every caller asks for a set in one way.
 *
 * @throws FencedUsageError for no key at all, an empty one, one that is not a string, or one that is reserved
 */
export function normalizeKeys(keys: string | readonly string[]): readonly string[] {
  if (typeof keys === 'string') return Object.freeze([validKey(keys)]);
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > MAX_KEYS)
    throw refusedKeys(
      `keys are a non-empty string, or an array of 1 to ${MAX_KEYS} of them`,
      Array.isArray(keys) ? `${keys.length} keys` : kindOf(keys),
    );
  // Array.from instead of map, which skips the holes of an array.
  return Object.freeze([...new Set(Array.from(keys, (key: unknown) => validKey(key)))].sort());
}

/** One key, also that of a slot. @throws FencedUsageError for anything else */
export function oneKey(key: string): string {
  const [name, ...others] = [key].flat();
  if (others.length === 0) return validKey(name, RESERVED);
  throw new FencedUsageError('This takes one key: call it for each of them.', [key].flat());
}

/** The key that a holder of one of several permits has: every slot is a lock of its own, with its own tokens. */
export function slotKey(key: string, slot: number): string {
  return `${key}#slot:${slot}`;
}

/** The number of the slot that this key is of; undefined for any other key. */
export function slotOf(key: string): number | undefined {
  const digits = /#slot:(\d+)$/.exec(key)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

function validKey(key: unknown, reserved = NOT_FOR_CALLS): string {
  if (typeof key !== 'string' || key === '')
    throw refusedKeys('a key is a non-empty string', kindOf(key));
  if (key.length > MAX_KEY_LENGTH || LONE_SURROGATE.test(key))
    throw refusedKeys(
      `a key is well-formed Unicode of at most ${MAX_KEY_LENGTH} characters`,
      `${quoteKeys([key])} with ${key.length}`,
    );
  if (reserved.test(key))
    throw refusedKeys(
      "a key neither starts with '#', nor contains '#floor:' or '#process:', nor ends with '#marker', '#marker:…', '#probe', '#queue' or '#slot:…'",
      quoteKeys([key]),
    );
  return key;
}

export function refusedKeys(rule: string, given: string): FencedUsageError {
  return new FencedUsageError(`Wrong lock key: ${rule}; given was ${given}. Nothing was locked.`);
}

/** Whether no half of a surrogate pair stands alone: on the wire they would all become the same bytes. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text);
}
