import { RedlockConfigError } from '../errors.ts';

/**
 * Refuses unknown names. Values are not shown: a misplaced one may be a password.
 *
 * @param taker what takes these options, for the message
 * @param known the names that there are
 * @param option the option whose value they are, for the message
 * @throws RedlockConfigError
 */
export function checkOptionNames(
  taker: string,
  options: unknown,
  known: readonly string[],
  option = 'options',
): void {
  const takes = () => `${taker} takes ${known.join(', ')}`;
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new RedlockConfigError(option, undefined, `give an object: ${takes()}`, kindOf(options));
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    const path = option === 'options' ? name : `${option}.${name}`;
    throw new RedlockConfigError(path, undefined, `it is unknown; ${takes()}`, 'given');
  }
}

/** For messages that must not show the value. */
export function kindOf(value: unknown): string {
  if (value == null) return String(value);
  if (value === '') return 'an empty string';
  if (Array.isArray(value)) return 'an array';
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`;
}
