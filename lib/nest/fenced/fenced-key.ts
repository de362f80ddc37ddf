import { FencedUsageError } from '../../core/errors.ts';
import { compileKeyTemplate, templateArguments } from './key-template.ts';

/** A function from the arguments of a call to its key or keys. Its parameters must be the first ones of the method. */
export type FencedKeyFunction = (...args: never[]) => string | readonly string[];

/** What `@Fenced` locks: a template such as `'seat:{0.id}'`, several of them, or a function. */
export type FencedKey = string | readonly string[] | FencedKeyFunction;

/** The keys of one call. */
export type KeysOfCall = (args: readonly unknown[]) => readonly string[];

/**
 * @param tokenParameters indices of the parameters under `@FencingToken()`: they can't be part of a key
 * @throws FencedUsageError when `key` can't work for any call
 */
export function compileFencedKey(
  key: FencedKey,
  tokenParameters: readonly number[],
  where: string,
): KeysOfCall {
  if (typeof key === 'function') return (args) => keysFrom(key, args, where);
  const templates = typeof key === 'string' ? [key] : key;
  if (
    !Array.isArray(templates) ||
    templates.length === 0 ||
    !templates.every((each) => typeof each === 'string')
  ) {
    throw new FencedUsageError(
      `${where}: @Fenced needs a key: a template such as 'seat:{0}', a non-empty array of them, or a function of the arguments.`,
    );
  }
  if (templates.flatMap(templateArguments).some((index) => tokenParameters.includes(index))) {
    throw new FencedUsageError(
      `${where}: the key uses the @FencingToken() parameter, which has no value before the lock is held.`,
    );
  }
  const compiled = templates.map((template) => compileKeyTemplate(template, where));
  return (args) => compiled.map((keyOf) => keyOf(args));
}

function keysFrom(
  key: FencedKeyFunction,
  args: readonly unknown[],
  where: string,
): readonly string[] {
  const made: unknown = key(...(args as never[]));
  const keys: readonly unknown[] = Array.isArray(made) ? made : [made];
  if (keys.length > 0 && keys.every((each) => typeof each === 'string' && each !== '')) {
    return keys as readonly string[];
  }
  throw new FencedUsageError(
    `${where}: the key function returned ${Array.isArray(made) && made.length === 0 ? 'an empty array' : 'something else than'} non-empty strings. The method was not run.`,
  );
}
