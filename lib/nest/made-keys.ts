import { types } from 'node:util';
import { HttpException } from '@nestjs/common';
import { FencedUsageError, isRedlockError } from '../core/errors.ts';

/**
 * What a template literal makes of a missing value, as a whole part of a key, and of an object or a promise. `null` and `NaN` are
 * also names of files and words, so that fewer signs make a part of them.
 */
const NO_VALUE = new RegExp(
  `${part('undefined|Invalid Date', String.raw`:/_.{}()[\]#=|,; -`)}|${part('null|NaN', ':{}=#|')}|\\[object \\w+\\]`,
);

/** One of `words`, alone between the ends of the key and any of `signs`. Said twice with "not", it costs a fifth. */
function part(words: string, signs: string): string {
  return `(?<![^${signs}])(?:${words})(?![^${signs}])`;
}

/** One of a template of `@Fenced`. Its groups: the number of the argument, and the path into it. */
export const PLACEHOLDER = /\{(\d+)((?:\.[A-Za-z0-9_$]+)*)\}/;

/** What is surely a template: the first argument, or a path. `{42}` may be an identifier, in the hash tag of Redis Cluster. */
const TEMPLATE = /\{(?:0|\d+\.[A-Za-z_$][\w$]*(?:\.[\w$]+)*)\}/;

/** What no key of a call has: both in one, since every call pays for it. */
const NO_KEY = new RegExp(`${NO_VALUE.source}|${TEMPLATE.source}`);

/** Whether it is a non-empty array of strings. */
export function isListOfTexts(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string')
  );
}

/**
 * Calls a function of the user.
 *
 * @throws FencedUsageError that names the method where the function throws. An HttpException is an answer to the caller, and
 * stays what it is, as do errors of this package.
 */
export function callOption<Result>(call: () => Result, name: string, where: string): Result {
  try {
    return call();
  } catch (cause) {
    if (cause instanceof HttpException || isRedlockError(cause)) throw cause;
    throw new FencedUsageError(
      `${where}: ${name} threw ${cause instanceof Error ? String(cause) : describeValue(cause)}. The method was not run.`,
      [],
      { cause },
    );
  }
}

/**
 * The keys that a function of the user makes.
 *
 * @param name of the function, for messages
 * @throws FencedUsageError when they are no keys, or are made of a missing value
 */
export function keysFrom(make: () => unknown, name: string, where: string): readonly string[] {
  return keysMade(callOption(make, name, where), name, where);
}

/** The keys that such a function made. @throws FencedUsageError as `keysFrom` */
export function keysMade(made: unknown, name: string, where: string): readonly string[] {
  // It is refused below; its rejection must not end the process.
  if (types.isPromise(made)) made.catch(() => undefined);
  // A copy: every() skips the holes of an array.
  const keys: unknown = Array.isArray(made) ? Array.from<unknown>(made) : [made];
  if (isListOfTexts(keys) && !keys.includes('')) {
    const bad = keys.find((each) => NO_VALUE.test(each));
    if (bad === undefined) return keys;
    throw new FencedUsageError(
      `${where}: ${name} made '${bad.slice(0, 100)}', of a value that is missing, or has no text of its own. Use what identifies it, such as its id. The method was not run.`,
    );
  }
  throw new FencedUsageError(
    `${where}: ${name} returned ${describeKeys(made)}; it must return a non-empty string, or an array of them. The method was not run.`,
  );
}

/** Of the options of calls whose keys `@Fenced` has made: there a text may read like a missing value, or like a template. */
export const KEYS_CHECKED = Symbol.for('nestjs-fenced-lock/keys-are-checked');

/** Marks options so. Not enumerable: no log or comparison shows it. */
export function ofCheckedKeys<Options extends object>(options: Options): Options {
  return Object.defineProperty(options, KEYS_CHECKED, { value: true });
}

/** Why the keys of a call of LockService are surely not those that were meant. What is no text at all is the core's to refuse. */
export function refusalOfKeys(keys: string | readonly string[]): FencedUsageError | undefined {
  const bad = Array.isArray(keys) ? keys.find(isNoKey) : keys;
  if (!isNoKey(bad)) return undefined;
  const shown = bad.slice(0, 100);
  if (NO_VALUE.test(bad))
    return new FencedUsageError(
      `A lock key was made of a value that is missing, or has no text of its own: '${shown}'. Use what identifies it, such as its id. Nothing was locked.`,
    );
  const meant = shown.replaceAll(new RegExp(PLACEHOLDER, 'g'), (_all, _argument, path: string) => {
    const name = path.split('.').at(-1);
    return `\${${name === '' ? 'id' : name}}`;
  });
  const [tag = ''] = TEMPLATE.exec(bad) ?? [];
  const text = tag.slice(1, -1).slice(0, 100);
  return new FencedUsageError(
    `LockService takes the key itself: write \`${meant}\`, not '${shown}'. Only @Fenced fills in such a template; here it would be one lock for everybody. Where ${text} is the identifier itself, put a word before it: '{id:${text}}'. Nothing was locked.`,
  );
}

function isNoKey(key: unknown): key is string {
  return typeof key === 'string' && NO_KEY.test(key);
}

function describeKeys(made: unknown): string {
  if (!Array.isArray(made)) return describeValue(made);
  const bad = made.findIndex((key) => typeof key !== 'string' || key === '');
  return bad < 0 ? 'an empty array' : `an array with ${describeValue(made[bad])}`;
}

/** For messages: of texts and objects only what they are. */
export function describeValue(value: unknown): string {
  if (types.isPromise(value)) return 'a promise';
  if (value === '') return 'an empty string';
  if (value === null || value === undefined || typeof value === 'number') return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}
