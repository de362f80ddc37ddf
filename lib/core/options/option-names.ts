import { RedlockConfigError } from '../errors.ts';

/** What other libraries call our options, in lower case. */
const ELSEWHERE: Readonly<Record<string, string>> = { timeout: 'wait', retrycount: 'wait' };

/**
 * Values are not shown: a misplaced one may be a password.
 *
 * @param taker what takes these options, for the message
 * @throws RedlockConfigError when `options` is not an object, or has a name that is not one of `known`
 */
export function checkOptionNames(
  taker: string,
  options: unknown,
  known: readonly string[],
  option = 'options',
): void {
  const takes = `${taker} takes ${known.join(', ')}`;
  if (typeof options !== 'object' || options === null)
    throw new RedlockConfigError(option, undefined, `give an object: ${takes}`, kindOf(options));
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const nearest = nearestTo(unknown.toLowerCase(), known);
  const hint = nearest === undefined ? '' : ` (did you mean '${nearest}'?)`;
  throw new RedlockConfigError(unknown, undefined, `it is unknown${hint}; ${takes}`, 'given');
}

/** The one that begins like `name`, as far as any does. */
function nearestTo(name: string, known: readonly string[]): string | undefined {
  const begin = ELSEWHERE[name] ?? name;
  for (let { length } = begin; length > 0; length -= 1) {
    const found = known.find((each) => each.toLowerCase().startsWith(begin.slice(0, length)));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** For messages that must not show the value. */
export function kindOf(value: unknown): string {
  return value == null ? String(value) : `a ${typeof value}`;
}
