import { RedlockConfigError } from '../core/errors.ts';
import { checkOptionNames, kindOf } from '../core/options/option-names.ts';

/** Of every fence in an SQL database. */
export const SQL_FENCE_OPTIONS = ['table', 'onStale', 'onEvent'];

/**
 * What would otherwise fail in the first transaction, or be ignored: another object than the client, an option that there is not.
 *
 * @param factory the function that was called, for messages
 * @param client what it was given; it must have these methods
 * @param needs the right client, for messages
 * @param known the options that there are
 * @throws RedlockConfigError
 */
export function checkFenceArguments(
  factory: string,
  client: unknown,
  methods: readonly string[],
  needs: string,
  options: unknown = {},
  known: readonly string[] = SQL_FENCE_OPTIONS,
): void {
  if (!hasMethods(client, methods)) refuseClient(factory, client, needs);
  checkOptionNames(factory, options, known);
}

/** @throws RedlockConfigError, which does not show the client: it may have a password */
export function refuseClient(factory: string, client: unknown, needs: string): never {
  throw new RedlockConfigError(
    factory,
    undefined,
    `it needs ${needs}`,
    `made over ${kindOf(client)}`,
  );
}

export function hasMethods(value: unknown, methods: readonly string[]): boolean {
  const known = value as Readonly<Record<string, unknown>> | null | undefined;
  return methods.every((name) => typeof known?.[name] === 'function');
}

/** @throws RedlockConfigError about `option` for a listener that can't be called; none may be given */
export function checkListener(option: string, listener: unknown): void {
  if (listener !== undefined && typeof listener !== 'function') refuseListener(option, listener);
}

/** @throws RedlockConfigError */
export function refuseListener(option: string, listener: unknown): never {
  const fix = 'give a function, which is called when it happens';
  const shown = listener instanceof Promise ? 'a promise' : kindOf(listener);
  throw new RedlockConfigError(option, listener, fix, shown);
}
