import { types } from 'node:util';
import { HttpException } from '@nestjs/common';
import { FencedUsageError, isRedlockError } from '../core/errors.ts';
import { CALLED_BY } from '../core/holding/reentrancy.ts';
import { kindOf } from '../core/options/option-names.ts';

/** One of a template of `@Fenced`. Its groups: the number of the argument, and the path into it. */
const PLACEHOLDER = /\{(0|[1-9]\d*)((?:\.[A-Za-z0-9_$]+)*)\}/;

function isListOfTexts(value: unknown): value is readonly string[] {
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
    throw located(cause, name, where);
  }
}

function located(cause: unknown, name: string, where: string): unknown {
  if (cause instanceof HttpException || isRedlockError(cause)) return cause;
  const thrown = cause instanceof Error ? String(cause) : kindOf(cause);
  const message = `${where}: ${name} threw ${thrown}. The method was not run.`;
  return new FencedUsageError(message, [], { cause });
}

/**
 * The keys that a function of the user made.
 *
 * @param name of the function, for messages
 * @throws FencedUsageError when they are no keys
 */
export function keysMade(made: unknown, name: string, where: string): readonly string[] {
  // It is refused below; its rejection must not end the process.
  if (types.isPromise(made)) made.catch(() => undefined);
  // A copy: every() skips the holes of an array.
  const keys: unknown = Array.isArray(made) ? Array.from<unknown>(made) : [made];
  if (isListOfTexts(keys) && !keys.includes('')) return keys;
  throw new FencedUsageError(
    `${where}: ${name} returned ${kindOf(made)}; it must return a non-empty string, or an array of them. The method was not run.`,
  );
}

/** Marks the options of a call whose keys `@Fenced` has made. Not enumerable: no log or comparison shows it. */
export function calledBy<Options extends object>(where: string, options: Options): Options {
  return Object.defineProperty(options, CALLED_BY, { value: where });
}

/** One `{0.user.id}` of a template, and what follows up to the next one. */
interface Placeholder {
  readonly text: string;
  readonly argument: number;
  readonly path: readonly string[];
  readonly literal: string;
}

/** A function from the arguments of a call to its key or keys. Its parameters must be the first ones of the method. */
export type FencedKeyFunction = (...args: never[]) => string | readonly string[];

/** What `@Fenced` locks: a template such as `'seat:{0.id}'`, several of them, or a function. */
export type FencedKey = string | readonly string[] | FencedKeyFunction;

export type KeysOfCall = (args: readonly unknown[]) => readonly string[];

/** @throws FencedUsageError when `key` is none, as where `@Fenced` has no parentheses: what it decorates would run unlocked */
export function checkFencedKey(key: unknown): void {
  if (typeof key === 'function' || isListOfTexts([key].flat())) return;
  throw new FencedUsageError(
    "@Fenced needs a key: a template such as 'seat:{0}', a non-empty array of them, or a function of the arguments.",
  );
}

/** @throws FencedUsageError when a template is malformed */
export function compileFencedKey(key: FencedKey, where: string): KeysOfCall {
  if (typeof key === 'function') {
    const name = 'the key function';
    return (args) =>
      keysMade(
        callOption(() => key(...(args as never[])), name, where),
        name,
        where,
      );
  }
  const compiled = [key].flat().map((template) => compileKeyTemplate(template, where));
  const [only] = compiled;
  if (compiled.length === 1 && only !== undefined) return (args) => [only(args)];
  return (args) => compiled.map((keyOf) => keyOf(args));
}

/**
 * Compiles `'seat:{0}'` or `'order:{1.customer.id}'`: `{n}` is argument n, and what follows the dots is a path into it.
 *
 * @param where the method, for messages
 * @throws FencedUsageError now when the template is malformed, and at each call whose value is missing, empty, or not a
 * string, finite number, bigint or boolean: there is never a lock on `'seat:undefined'`
 */
export function compileKeyTemplate(
  template: string,
  where: string,
): (args: readonly unknown[]) => string {
  const [start = '', ...rest] = template.split(PLACEHOLDER);
  const placeholders: Placeholder[] = [];
  while (rest.length > 0) {
    const [argument = '', dots = '', literal = ''] = rest.splice(0, 3);
    const path = dots.split('.').slice(1);
    const text = `{${argument}${dots}}`;
    placeholders.push({ text, argument: Number(argument), path, literal });
  }
  if (/[{}]/.test(start + placeholders.map(({ literal }) => literal).join(''))) {
    throw new FencedUsageError(
      `${where}: '${template}' is not a key template. Write '{0}' for the first argument, '{0.id}' for a property of it; for anything else give a function.`,
    );
  }
  return (args) => {
    let key = start;
    for (const placeholder of placeholders)
      key += valueOf(placeholder, args, template, where) + placeholder.literal;
    return key;
  };
}

function valueOf(
  { text, argument, path }: Placeholder,
  args: readonly unknown[],
  template: string,
  where: string,
): string {
  let value = args[argument];
  try {
    for (const name of path) value = (value as Record<string, unknown> | null | undefined)?.[name];
  } catch (cause) {
    throw located(cause, `${text} of the key '${template}'`, where);
  }
  if (typeof value === 'string' && value !== '') return value;
  if (Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value);
  throw new FencedUsageError(
    `${where}: ${text} of the key '${template}' is ${kindOf(value)}; it must be a non-empty string, a finite number, a bigint or a boolean. The method was not run.`,
  );
}
