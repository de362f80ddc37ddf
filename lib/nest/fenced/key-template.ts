import { FencedUsageError } from '../../core/errors.ts';

/** One `{0.user.id}` of a template. */
interface Placeholder {
  readonly text: string;
  readonly argument: number;
  readonly path: readonly string[];
}

const PLACEHOLDER = /\{(\d+)((?:\.[A-Za-z0-9_$]+)*)\}/g;
const FORBIDDEN_NAMES: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** Makes a key from the arguments of a call. */
export type KeyTemplate = (args: readonly unknown[]) => string;

/**
 * Compiles `'seat:{0}'` or `'order:{1.customer.id}'`: `{n}` is argument n, and what follows the dots is a path into it.
 *
 * @param where the method, for messages
 * @throws FencedUsageError now when the template is malformed, and at each call whose value is missing, empty, or not a
 * string, finite number, bigint or boolean: there is never a lock on `'seat:undefined'`
 */
export function compileKeyTemplate(template: string, where: string): KeyTemplate {
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
  return (args) =>
    placeholders.reduce(
      (key, each, index) => key + valueOf(each, args, template, where) + literals[index + 1],
      literals[0] ?? '',
    );
}

/** Which arguments a template reads. */
export function templateArguments(template: string): number[] {
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
  if (isKeyPart(value)) return String(value);
  throw new FencedUsageError(
    `${where}: ${text} of the key '${template}' is ${describe(value)}; it must be a non-empty string, a finite number, a bigint or a boolean. The method was not run.`,
  );
}

function isKeyPart(value: unknown): boolean {
  if (typeof value === 'string') return value !== '';
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value === 'bigint' || typeof value === 'boolean';
}

function describe(value: unknown): string {
  if (value === '') return 'an empty string';
  if (value === null || value === undefined || typeof value === 'number') return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}
