import { randomUUID } from 'node:crypto';
import { FencingToken } from '../core/fencing-token.ts';
import { normalizeKeys } from '../core/options/lock-keys.ts';

/**
 * A fencing token for a plain unit test, which calls a method under `@Fenced` on an object of its own or a fence by hand. Each
 * has a holder of its own, so two of them with the same value are still two grants.
 *
 * @param keys the keys that it was granted for
 * @param value its number: a larger one is newer
 * @throws RangeError when `value` is no positive safe integer
 * @throws FencedUsageError when `keys` are no lock keys
 *
 * @example
 * ```ts
 * const stale = createFencingToken('seat:12A', 41);
 * await fence.claim(createFencingToken('seat:12A', 42));
 * await expect(seats.write('12A', stale)).rejects.toThrow('Stale');
 * ```
 */
export function createFencingToken(keys: string | readonly string[], value = 1): FencingToken {
  return new FencingToken(value, normalizeKeys(keys), `test-${randomUUID()}`);
}
