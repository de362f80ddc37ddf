import { FencedUsageError } from '../core/errors.ts';
import { isWellFormed, MAX_KEYS } from '../core/options/lock-keys.ts';

export const MAX_KEY_BYTES = 2_500;

/**
 * The HTTP header that carries a token to another service: `Fencing-Token: 1795228058941046;f3c9…`.
 *
 * @example
 * ```ts
 * const headers = { [FENCING_TOKEN_HEADER]: `${token.value};${token.holder}` };
 * ```
 */
export const FENCING_TOKEN_HEADER = 'Fencing-Token';

/** The part of a token that travels. */
export interface HeaderToken {
  /** The number; in text it is decimal, so that nothing on the way rounds it. */
  readonly value: number | bigint | string;
  /** The random identity of the grant. */
  readonly holder: string;
}

/** A token as another service sent it. The sender's keys are not in it: the receiver knows which of its resources is meant. */
export interface ReceivedFencingToken {
  /** The decimal number. */
  readonly value: string;
  /** The resources that the receiver said are meant. */
  readonly keys: readonly string[];
  /** The random identity of the grant. */
  readonly holder: string;
}

/**
 * The header for an outgoing request, to spread among others: `fetch(url, { headers: { ...fencingTokenHeader(token) } })`.
 *
 * @example
 * ```ts
 * await fetch('http://ledger/bookings', { method: 'POST', headers: { ...fencingTokenHeader(token) } });
 * ```
 * @throws FencedUsageError when the token is missing or malformed
 */
export function fencingTokenHeader(token: HeaderToken | undefined): Record<string, string> {
  const { value, holder } = Object(token) as Partial<HeaderToken>;
  const text = typeof holder === 'string' ? `${tokenDecimal(value)};${holder}` : '';
  if (parseFencingTokenHeader(text)?.holder !== holder || holder === undefined) {
    throw new FencedUsageError(
      'No request may leave a locked section without its fencing token: pass that of the lock, whose value is a positive integer, and its holder.',
    );
  }
  return { [FENCING_TOKEN_HEADER]: text };
}

/**
 * Reads the header of an incoming request; undefined when it is malformed, or no fence can have one of the keys.
 *
 * @example
 * ```ts
 * const received = parseFencingTokenHeader('1795228058941046;f3c9', ['seat:12A']);
 * if (received) await fence.claim(received);
 * ```
 * @param keys what it is to be checked for here
 * @throws FencedUsageError when `keys` is not an array
 */
export function parseFencingTokenHeader(
  text: string,
  keys: readonly string[] = [],
): ReceivedFencingToken | undefined {
  checkKeyList(keys);
  const [, value = '', holder = ''] = /^(\d+);([!-+\--:<-~]{1,255})$/.exec(text.trim()) ?? [];
  return isTokenValue(value) && Array.from(keys).every(isFenceKey)
    ? { value, keys, holder }
    : undefined;
}

/**
 * Spreading a string would fence each of its characters instead of the key.
 * @throws FencedUsageError also for more than a lock can have
 */
export function checkKeyList(keys: unknown): void {
  if (!Array.isArray(keys))
    throw new FencedUsageError(
      `The keys of a fence must be an array of strings, not of type ${typeof keys}: write ['seat:1'], not 'seat:1'. Nothing was written.`,
    );
  if (keys.length <= MAX_KEYS) return;
  throw new FencedUsageError(
    `A fencing token has at most ${MAX_KEYS} keys, as a lock has, not ${keys.length}. Lock one key that stands for all of them. Nothing was written.`,
  );
}

export function isFenceKey(key: unknown): key is string {
  const fits = typeof key === 'string' && key !== '' && Buffer.byteLength(key) <= MAX_KEY_BYTES;
  return fits && !key.includes('\0') && isWellFormed(key);
}

/** The value of a token as text; undefined when it is none, or a number that may have been rounded. */
export function tokenDecimal(value: unknown): string | undefined {
  const isExact =
    typeof value === 'number' ? Number.isSafeInteger(value) : /bigint|string/.test(typeof value);
  return isExact && isTokenValue(String(value)) ? String(value) : undefined;
}

/** Whether it is a decimal number from 1 to 2^63 - 1, without leading zeros. */
function isTokenValue(text: string): boolean {
  return /^[1-9]\d{0,18}$/.test(text) && BigInt(text) <= 9_223_372_036_854_775_807n;
}
