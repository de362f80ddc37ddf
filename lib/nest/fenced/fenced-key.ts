import { FencedUsageError } from '../../core/errors.ts';
import { describeValue, isListOfTexts, keysFrom, PLACEHOLDER } from '../made-keys.ts';
import type { LockParameters } from './lock-parameters.ts';

/** One `{0.user.id}` of a template, and what follows up to the next one. */
interface Placeholder {
  readonly text: string;
  readonly argument: number;
  readonly path: readonly string[];
  readonly literal: string;
}

const FORBIDDEN_NAMES: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** A function from the arguments of a call to its key or keys. Its parameters must be the first ones of the method. */
export type FencedKeyFunction = (...args: never[]) => string | readonly string[];

/** What `@Fenced` locks: a template such as `'seat:{0.id}'`, several of them, or a function. */
export type FencedKey = string | readonly string[] | FencedKeyFunction;

/** The keys of one call. */
export type KeysOfCall = (args: readonly unknown[]) => readonly string[];

/** The parameters of a method, as far as they are known when it is decorated. */
export interface KeyParameters extends LockParameters {
  /** What TypeScript wrote about them; undefined without `emitDecoratorMetadata`. */
  readonly types?: readonly unknown[] | undefined;
  /** How many come before the first with a default, and before a rest parameter. */
  readonly length: number;
}

/**
 * @param parameters those that the lock fills in can't be part of a key
 * @throws FencedUsageError when `key` can't work for any call
 */
export function compileFencedKey(
  key: FencedKey,
  parameters: KeyParameters,
  where: string,
): KeysOfCall {
  if (typeof key === 'function')
    return (args) => keysFrom(() => key(...(args as never[])), 'the key function', where);
  const templates: unknown = typeof key === 'string' ? [key] : key;
  if (!isListOfTexts(templates)) {
    throw new FencedUsageError(
      `${where}: @Fenced needs a key: a template such as 'seat:{0}', a non-empty array of them, or a function of the arguments.`,
    );
  }
  const compiled = templates.map((template) => compileKeyTemplate(template, where, parameters));
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
  parameters?: KeyParameters,
): (args: readonly unknown[]) => string {
  if (template === '') {
    throw new FencedUsageError(
      `${where}: the key template is empty. Write the name of what is locked, such as 'seat:{0}'.`,
    );
  }
  const [start = '', ...rest] = template.split(PLACEHOLDER);
  const placeholders: Placeholder[] = [];
  while (rest.length > 0) {
    const [argument = '', dots = '', literal = ''] = rest.splice(0, 3);
    const path = dots.split('.').slice(1);
    placeholders.push({ text: `{${argument}${dots}}`, argument: Number(argument), path, literal });
  }
  const literals = [start, ...placeholders.map(({ literal }) => literal)];
  const names = placeholders.flatMap(({ path }) => path);
  if (/[{}]/.test(literals.join('')) || names.some((name) => FORBIDDEN_NAMES.has(name))) {
    throw new FencedUsageError(
      `${where}: '${template}' is not a key template. Write '{0}' for the first argument, '{0.id}' for a property of it; for anything else give a function.`,
    );
  }
  for (const placeholder of placeholders) {
    const refusal = parameters && refusalOf(placeholder, parameters);
    if (refusal !== undefined)
      throw new FencedUsageError(
        `${where}: ${placeholder.text} of the key '${template}' ${refusal}.`,
      );
  }
  return (args) => {
    let key = start;
    for (const placeholder of placeholders)
      key += valueOf(placeholder, args, template, where) + placeholder.literal;
    return key;
  };
}

/** Why a placeholder has a value in no call. */
function refusalOf(
  { argument, path: [name] }: Placeholder,
  { tokenParameters, signalParameters, types, length }: KeyParameters,
): string | undefined {
  const filled = [...tokenParameters, ...signalParameters];
  if (filled.includes(argument))
    return 'is a parameter that the lock fills in: it has no value before the lock is held';
  if (types === undefined) return undefined;
  // A rest parameter would be the last one, and is not counted in the length.
  const isAll = length === types.length || filled.includes(types.length - 1);
  if (isAll && argument >= types.length)
    return `is beyond the parameters of the method: '{0}' is the first one, and it has ${types.length}`;
  const type = PRIMITIVES.find((primitive) => primitive === types[argument]);
  if (type === undefined || name === undefined || name in type.prototype) return undefined;
  return `can't have a value: the parameter is a ${type.name.toLowerCase()}, which has no '${name}'`;
}

const PRIMITIVES = [String, Number, Boolean, BigInt];

function valueOf(
  { text, argument, path }: Placeholder,
  args: readonly unknown[],
  template: string,
  where: string,
): string {
  let value = args[argument];
  for (const name of path) value = (value as Record<string, unknown> | null | undefined)?.[name];
  if (typeof value === 'string' && value !== '') return value;
  if (Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value);
  throw new FencedUsageError(
    `${where}: ${text} of the key '${template}' is ${describeValue(value)}; it must be a non-empty string, a finite number, a bigint or a boolean. The method was not run.`,
  );
}
