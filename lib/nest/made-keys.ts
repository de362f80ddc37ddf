import { HttpException } from '@nestjs/common';
import { FencedUsageError, isRedlockError } from '../core/errors.ts';
import { kindOf } from '../core/options/option-names.ts';

/** A value in a template of `@Fenced`: the number of the argument, and the path into it. */
const PLACEHOLDER = /\{(0|[1-9]\d*)((?:\.[A-Za-z0-9_$]+)*)\}/g;
const KEY_FUNCTION = 'the key function';

/** The numbers of the arguments that a template takes. */
export function argumentsOf(template: string): number[] {
  return [...template.matchAll(PLACEHOLDER)].map(([, index]) => Number(index));
}

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
    if (cause instanceof HttpException || isRedlockError(cause)) throw cause;
    const thrown = cause instanceof Error ? String(cause) : kindOf(cause);
    const message = `${where}: ${name} threw ${thrown}. The method was not run.`;
    throw new FencedUsageError(message, [], { cause });
  }
}

/**
 * The keys that a function of the user made.
 *
 * @param name of the function, for messages
 * @throws FencedUsageError when they are no keys
 */
export function keysMade(made: unknown, name: string, where: string): readonly string[] {
  // A copy: every() skips the holes of an array.
  const keys: unknown = Array.isArray(made) ? Array.from<unknown>(made) : [made];
  if (isListOfTexts(keys) && !keys.includes('')) return keys;
  throw new FencedUsageError(
    `${where}: ${name} returned ${kindOf(made)}; it must return a non-empty string, or an array of them. The method was not run.`,
  );
}

/** A function from the arguments of a call to its key or keys. Its parameters must be the first ones of the method. */
export type FencedKeyFunction = (...args: never[]) => string | readonly string[];

/** The key that `@Fenced` locks: a template such as `'seat:{0.id}'`, several of them, or a function. */
export type FencedKey = string | readonly string[] | FencedKeyFunction;

export type KeysOfCall = (args: readonly unknown[]) => readonly string[];

/** @throws FencedUsageError when `key` is none, as where `@Fenced` has no parentheses: what it decorates would run unlocked */
export function checkFencedKey(key: unknown, decorator = '@Fenced'): void {
  if (typeof key === 'function' || isListOfTexts([key].flat())) return;
  throw new FencedUsageError(
    `${decorator} needs a key: a template such as 'seat:{0}', a non-empty array of them, or a function of the arguments.`,
  );
}

/**
 * Compiles a function, or templates: in `'order:{1.customer.id}'`, `{1}` is argument 1, and what follows the dots is a path into it.
 *
 * @param where the method, for messages
 * @throws FencedUsageError now when a template is malformed, and at each call whose value is missing, empty, or not a
 * string, finite number, bigint or boolean: there is never a lock on `'seat:undefined'`
 */
export function compileFencedKey(key: FencedKey, where: string): KeysOfCall {
  if (typeof key === 'function')
    return (args) => {
      const made = callOption(() => key(...(args as never[])), KEY_FUNCTION, where);
      return keysMade(made, KEY_FUNCTION, where);
    };
  const templates = [key].flat();
  const malformed = templates.find((each) => /[{}]|\$\d/.test(each.replaceAll(PLACEHOLDER, '0')));
  if (malformed !== undefined)
    throw new FencedUsageError(
      `${where}: '${malformed}' is not a key template. Write '{0}' for the first argument, '{0.id}' for a property of it; for anything else give a function.`,
    );
  return (args) =>
    templates.map((template) =>
      template.replaceAll(PLACEHOLDER, (text, index: string, path: string) => {
        const name = `${text} of the key '${template}'`;
        const value = callOption(
          () => path.split('.').slice(1).reduce(propertyOf, args[Number(index)]),
          name,
          where,
        );
        if (typeof value === 'string' && value !== '') return value;
        if (Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean')
          return String(value);
        throw new FencedUsageError(
          `${where}: ${name} is ${kindOf(value)}; it must be a non-empty string, a finite number, a bigint or a boolean. The method was not run.`,
        );
      }),
    );
}

function propertyOf(value: unknown, name: string): unknown {
  return (value as Record<string, unknown> | null | undefined)?.[name];
}
