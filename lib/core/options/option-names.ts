import { RedlockConfigError } from '../errors.ts';

/** What other libraries call our options, in lower case. */
const ELSEWHERE: readonly (readonly [RegExp, string])[] = [
  [/^(acquire|wait)?timeout$|^retrycount$|^retries$/, 'wait'],
  [/^(redis|clients?|servers?|hosts?|urls?|connections?|instances)$/, 'nodes'],
  [/^(expires?|expiration|duration|lease|lifetime)/, 'ttl'],
  [/^prefix$/, 'keyPrefix'],
  [/^global$/, 'isGlobal'],
  [/^hostname$/, 'host'],
  [/^user$/, 'username'],
  [/^(pass(wd)?|pwd|auth(_?pass)?)$/, 'password'],
  [/^(ssl|secure)$/, 'tls'],
  [/^database$/, 'db'],
];

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
  const nearest = nearestTo(unknown.toLowerCase(), known);
  const hint = nearest === undefined ? '' : ` (did you mean '${nearest}'?)`;
  const path = option === 'options' ? unknown : `${option}.${unknown}`;
  throw new RedlockConfigError(path, undefined, `it is unknown${hint}; ${takes}`, 'given');
}

/** The one that was meant, or that begins like `name` in three letters or more. */
function nearestTo(name: string, known: readonly string[]): string | undefined {
  let found = meantBy(name, known);
  for (let { length } = name; length > 2; length -= 1)
    found ??= known.find((each) => each.toLowerCase().startsWith(name.slice(0, length)));
  return found;
}

/** The one that `name`, in lower case, surely stands for: its name elsewhere, or a slip of the keyboard. */
export function meantBy(name: string, known: readonly string[]): string | undefined {
  const [, ours] = ELSEWHERE.find(([names]) => names.test(name)) ?? [];
  if (ours !== undefined && known.includes(ours)) return ours;
  return known.find((each) => isSlip(name, each.toLowerCase()));
}

/** Whether they differ at one place only, and there in no more letters than the shortness of the name allows. */
function isSlip(name: string, known: string): boolean {
  const length = Math.max(name.length, known.length);
  const shared = Math.min(name.length, known.length);
  let start = 0;
  while (start < shared && name[start] === known[start]) start += 1;
  let end = 0;
  while (end < shared - start && name.at(-1 - end) === known.at(-1 - end)) end += 1;
  const isSwap = name[start] === known[start + 1] && name[start + 1] === known[start];
  return length - start - end <= (isSwap || known.length > 5 ? 2 : known.length > 2 ? 1 : 0);
}

/** For messages that must not show the value. */
export function kindOf(value: unknown): string {
  if (value == null) return String(value);
  if (Array.isArray(value)) return 'an array';
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`;
}
