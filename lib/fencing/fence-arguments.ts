import { RedlockConfigError } from '../core/errors.ts';
import { checkOptionNames, kindOf } from '../core/options/option-names.ts';

/**
 * What would otherwise fail in the first transaction, or be ignored: another object than the client, an option that there is not.
 *
 * @param factory the function that was called, for messages
 * @param client what it was given; it must have these methods
 * @param needs the right client, for messages
 * @param further the options that only this fence has
 * @throws RedlockConfigError
 */
export function checkFenceArguments(
  factory: string,
  client: unknown,
  methods: readonly string[],
  needs: string,
  options: unknown = {},
  further: readonly string[] = [],
): void {
  const known = client as Readonly<Record<string, unknown>> | null | undefined;
  if (!methods.every((name) => typeof known?.[name] === 'function'))
    refuseClient(factory, client, needs);
  checkOptionNames(factory, options, ['table', 'onStale', 'onEvent', ...further]);
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
