import { FencedUsageError, quoteKeys, StaleTokenError } from '../core/errors.ts';
import { kindOf } from '../core/options/option-names.ts';
import type { FenceToken } from './fence.ts';
import { checkKeyList, isFenceKey, MAX_KEY_BYTES, tokenDecimal } from './fencing-token-header.ts';

/** A row of the fence: this holder's token for this key. */
export interface FenceClaim {
  readonly key: string;
  /** Decimal. */
  readonly token: string;
  readonly holder: string;
}

const AS_GIVEN = 'Pass the token as the lock gave it, or as it was received.';
/** A time in 2001. Smaller tokens are numbers of a counter, and no times in microseconds. */
export const FIRST_TIME = '1000000000000000';
/** An empty text is no holder: it marks the rows that were repaired. */
const HOLDER = /^[\x20-\x7e]{1,255}$/;

/**
 * The rows a token claims, in one order for all processes (bytes of the key), so that two holders of overlapping sets
 * never wait for each other.
 *
 * @param keys some of the token's keys; default all of them
 * @throws FencedUsageError when the token is missing or malformed, or has no age where the fence has a `maxAgeMs`, when the keys are
 *   no array or too many, or one is not the token's
 */
export function fenceClaims(
  token: FenceToken | undefined | null,
  keys?: readonly string[],
  maxAgeMs?: number,
): readonly FenceClaim[] {
  if (Object((token as { token?: unknown } | null | undefined)?.token).keys !== undefined)
    throw unusable('A fencing token is needed, but you passed the lock: pass lock.token.');
  if (typeof token !== 'object' || token === null || token.keys === undefined)
    throw unusable(
      `A fencing token is needed, but it is ${kindOf(token)}. Pass the lock's token: a parameter under @FencingToken() of a method under @Fenced, or lock.token.`,
    );
  const { value, holder, keys: granted } = token;
  checkKeyList(granted);
  if (keys !== undefined) checkKeyList(keys);
  const decimal = tokenDecimal(value);
  const shown = typeof value === 'number' ? value : kindOf(value);
  if (decimal === undefined)
    throw unusable(
      `A fencing token must be a positive integer (safe as a number, at most 2^63 - 1 as bigint or decimal string), not ${shown}. ${AS_GIVEN}`,
      granted,
    );
  if (typeof holder !== 'string' || !HOLDER.test(holder))
    throw unusable(
      `The holder of a fencing token must be a string of 1 to 255 printable ASCII characters. ${AS_GIVEN}`,
      granted,
    );
  if (maxAgeMs !== undefined && decimal.length < FIRST_TIME.length)
    throw unusable(
      `The token ${decimal} is not a time, so it has no age, but the fence has a maxAge. A fence for the tokens of a counter takes no maxAge.`,
      granted,
    );
  const chosen = [...new Set(keys ?? granted)];
  if (chosen.length === 0)
    throw unusable(
      'No key to fence: this token came without keys, so name them in the call (option keys).',
    );
  for (const key of chosen) checkKey(key, granted);
  return chosen
    .map((key) => ({ key, token: decimal, holder }))
    .sort((left, right) => Buffer.compare(Buffer.from(left.key), Buffer.from(right.key)));
}

/** The refusal of a token, with the advice that helps where the number it met is ahead of the clock. */
export function staleToken(key: string, token: string, current: string, holder: string) {
  const aheadDays = Math.floor((Number(current) / 1_000 - Date.now()) / 86_400_000);
  return new StaleTokenError(key, token, current, holder, aheadDays);
}

function unusable(why: string, keys?: readonly string[]): FencedUsageError {
  return new FencedUsageError(`${why} Nothing was written.`, keys);
}

/** @param granted empty for a token from outside @throws FencedUsageError when no fence can have the key, or it is not granted */
export function checkKey(key: unknown, granted: readonly string[] = []): void {
  const shown = typeof key === 'string' ? quoteKeys([key]) : kindOf(key);
  if (!isFenceKey(key))
    throw unusable(
      `A fence key must be a non-empty, well-formed string of at most ${MAX_KEY_BYTES} bytes without NUL, not ${shown}.`,
    );
  if (granted.length > 0 && !granted.includes(key))
    throw unusable(
      `This token was granted for ${quoteKeys(granted)}, not for ${shown}: it says nothing about who may write there. Lock both keys together.`,
      [key],
    );
}
