import { FencedUsageError } from '../../core/errors.ts';

/** One `{0.user.id}` of a template. */
interface Placeholder {
  readonly text: string;
  readonly argument: number;
  readonly path: readonly string[];
}

const PLACEHOLDER = /\{(\d+)((?:\.[A-Za-z0-9_$]+)*)\}/g;
const FORBIDDEN_NAMES: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

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
  const [only] = compiled;
  if (compiled.length === 1 && only !== undefined) return (args) => [only(args)];
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
    `${where}: the key function returned ${Array.isArray(made) && made.length === 0 ? 'an empty array instead of' : 'something other than'} non-empty strings. The method was not run.`,
  );
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
  if (template === '') throw new FencedUsageError(`${where}: the key template is empty.`);
  const literals: string[] = [];
  const placeholders: Placeholder[] = [];
  let end = 0;
  for (const match of template.matchAll(PLACEHOLDER)) {
    literals.push(template.slice(end, match.index));
    placeholders.push(placeholder(match, template, where));
    end = match.index + match[0].length;
  }
  literals.push(template.slice(end));
  if (literals.some((literal) => /[{}]/.test(literal))) throw malformed(template, where);
  return (args) => {
    let key = literals[0] ?? '';
    for (let index = 0; index < placeholders.length; index += 1)
      key += valueOf(placeholders[index]!, args, template, where) + literals[index + 1];
    return key;
  };
}

/** Which arguments a template reads. */
function templateArguments(template: string): number[] {
  return [...template.matchAll(PLACEHOLDER)].map((match) => Number(match[1]));
}

function placeholder(match: RegExpExecArray, template: string, where: string): Placeholder {
  const path = (match[2] ?? '').split('.').slice(1);
  if (path.some((name) => FORBIDDEN_NAMES.has(name))) throw malformed(template, where);
  return { text: match[0], argument: Number(match[1]), path };
}

function malformed(template: string, where: string): FencedUsageError {
  return new FencedUsageError(
    `${where}: '${template}' is not a key template. Write '{0}' for the first argument, '{0.id}' for a property of it; for anything else give a function.`,
  );
}

function valueOf(
  { text, argument, path }: Placeholder,
  args: readonly unknown[],
  template: string,
  where: string,
): string {
  let value = args[argument];
  for (const name of path) {
    value =
      value === null || value === undefined ? undefined : (value as Record<string, unknown>)[name];
  }
  if (typeof value === 'string' && value !== '') return value;
  if (isKeyPart(value)) return String(value);
  throw new FencedUsageError(
    `${where}: ${text} of the key '${template}' is ${describe(value)}; it must be a non-empty string, a finite number, a bigint or a boolean. The method was not run.`,
  );
}

function isKeyPart(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value === 'bigint' || typeof value === 'boolean';
}

function describe(value: unknown): string {
  if (value === '') return 'an empty string';
  if (value === null || value === undefined || typeof value === 'number') return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}
