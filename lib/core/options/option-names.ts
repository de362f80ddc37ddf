import { RedlockConfigError } from '../errors.ts';

/**
 * Values are not shown: a misplaced one may be a password.
 *
 * @param taker what takes these options, for the message
 * @param option the option whose value they are; those of a call, or of the module, are none's
 * @throws RedlockConfigError when `options` is not an object, or has a name that is not one of `known`
 */
export function checkOptionNames(
  taker: string,
  options: unknown,
  known: readonly string[],
  option = 'options',
): void {
  const takes = `${taker} takes ${known.join(', ')}`;
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new RedlockConfigError(option, undefined, `give an object: ${takes}`, kindOf(options));
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const path = option === 'options' ? unknown : `${option}.${unknown}`;
  throw new RedlockConfigError(path, undefined, `it is unknown; ${takes}`, 'given');
}

/** For messages that must not show the value. */
export function kindOf(value: unknown): string {
  if (value == null) return String(value);
  if (Array.isArray(value)) return 'an array';
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`;
}
