import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import { kindOf } from '../../core/options/option-names.ts';
import type { PruneOptions } from '../fence.ts';

const DAY_MS = 86_400_000;

/** In 2001; what is smaller is no time in microseconds. */
export const FIRST_TIME = '1000000000000000';

/** @throws RedlockConfigError */
export function ageOf(options: Partial<PruneOptions> = {}): number {
  if (typeof options !== 'object' || options === null)
    throw new RedlockConfigError(
      'options',
      undefined,
      'give an object: fence.prune takes olderThan',
      kindOf(options),
    );
  // What the conformance kit gives has more names.
  const { olderThan } = options;
  const text = typeof olderThan === 'string' ? olderThan : '';
  const [, count, unit] = /^(\d+(?:\.\d+)?)([hd])$/.exec(text) ?? [];
  const written = Number(count) * (unit === 'd' ? DAY_MS : DAY_MS / 24);
  const ageMs = Math.round(typeof olderThan === 'number' ? olderThan : written);
  if (ageMs >= DAY_MS && Number.isSafeInteger(ageMs)) return ageMs;
  const fix = "give milliseconds, or a text such as '36h' or '30d', from '1d': clocks may differ";
  throw new RedlockConfigError('olderThan', olderThan, fix);
}

/**
 * @param subject what can't be pruned, such as a table
 * @param key one that has a number that is no time
 */
export function counterRefusal(subject: string, key: string): FencedUsageError {
  const why = `its key '${key}' has the token of a counter, which tells no age. Prune only what the quorum numbers.`;
  return pruneRefusal(subject, why);
}

export function pruneRefusal(subject: string, why: string): FencedUsageError {
  return new FencedUsageError(`${subject} can't be pruned: ${why} Nothing was deleted.`);
}
