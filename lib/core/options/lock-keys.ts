import { FencedUsageError, quoteKeys } from '../errors.ts';

export const MAX_KEYS = 1_000;
export const MAX_KEY_LENGTH = 1_024;
/** Names of markers, floors and queues, also those under a longer prefix: `lock:` and key `b:#marker` is the marker of `lock:b:`. */
const RESERVED = /^#|#marker(:\w+)?$|#(probe|queue)$|#floor:/;
/** With the `u` flag a surrogate class matches unpaired ones only. */
const LONE_SURROGATE = /[\uD800-\uDFFF]/u;

/**
 * The keys of one lock: sorted, without duplicates and frozen, so that every caller asks for a set in one way.
 *
 * @throws FencedUsageError for no key at all, an empty one, one that is not a string, or one that is reserved
 */
export function normalizeKeys(keys: string | readonly string[]): readonly string[] {
  if (typeof keys === 'string') return Object.freeze([validKey(keys)]);
  if (!Array.isArray(keys) || keys.length === 0) {
    throw new FencedUsageError(
      'A lock needs a key: give a non-empty string or a non-empty array of them. Nothing was locked.',
    );
  }
  if (keys.length > MAX_KEYS) {
    throw new FencedUsageError(
      `A lock takes at most ${MAX_KEYS} keys, not ${keys.length}. Lock one key that stands for all of them. Nothing was locked.`,
    );
  }
  // Not by map, which skips the holes of an array.
  return Object.freeze([...new Set(Array.from<unknown, string>(keys, validKey))].sort());
}

function validKey(key: unknown): string {
  if (typeof key !== 'string' || key === '') {
    const given = key === '' ? 'an empty string' : key === null ? 'null' : `of type ${typeof key}`;
    throw new FencedUsageError(
      `A lock key must be a non-empty string, but it is ${given}. Give an identifier in text, such as 'seat:12A'. Nothing was locked.`,
    );
  }
  if (key.length > MAX_KEY_LENGTH) {
    throw new FencedUsageError(
      `A lock key has at most ${MAX_KEY_LENGTH} characters, not ${key.length}: use an identifier or a hash. Nothing was locked.`,
    );
  }
  if (RESERVED.test(key)) {
    throw new FencedUsageError(
      `Lock keys that start with '#', contain '#floor:', or end with '#marker', '#marker:…', '#probe' or '#queue' are reserved: ${JSON.stringify(key.slice(0, 100))}. Use another key, such as 'seat:${key.replaceAll('#', '').slice(0, 20)}'. Nothing was locked.`,
    );
  }
  if (LONE_SURROGATE.test(key)) {
    throw new FencedUsageError(
      `A lock key must be well-formed Unicode, but ${quoteKeys([key])} has half of a surrogate pair. Look where the text was cut. Nothing was locked.`,
    );
  }
  return key;
}

/** Whether no half of a surrogate pair stands alone: on the wire they would all become the same bytes. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text);
}
