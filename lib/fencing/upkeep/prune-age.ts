import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import { checkOptionNames } from '../../core/options/option-names.ts';
import type { PruneOptions } from '../fence.ts';

const DAY_MS = 86_400_000;

/** In 2001; what is smaller is no time in microseconds. */
export const FIRST_TIME = '1000000000000000';

/** @throws RedlockConfigError */
export function ageOf(options: Partial<PruneOptions> = {}): number {
  // What the conformance kit gives has a floor, too.
  if (!('floor' in Object(options))) checkOptionNames('fence.prune', options, ['olderThan']);
  const { olderThan } = options;
  const text = typeof olderThan === 'string' ? olderThan : '';
  const [, count, unit] = /^(\d+(?:\.\d+)?)([hd])$/.exec(text) ?? [];
  const written = Number(count) * (unit === 'd' ? DAY_MS : DAY_MS / 24);
  const ageMs = Math.round(typeof olderThan === 'number' ? olderThan : written);
  if (ageMs >= DAY_MS && Number.isSafeInteger(ageMs)) return ageMs;
  const fix = "give milliseconds, or a text such as '36h' or '30d', from '1d': clocks may differ";
  const meant = typeof olderThan === 'number' && olderThan >= 1 ? meantBy(olderThan) : undefined;
  const shown = meant && `${olderThan} (did you mean ${meant}?)`;
  throw new RedlockConfigError('olderThan', olderThan, fix, shown);
}

/** A small number of days, or seconds; undefined for what is no age in either. */
function meantBy(count: number): string | undefined {
  if (count < DAY_MS / 1_000) return `'${count}d'`;
  return count < DAY_MS ? String(count * 1_000) : undefined;
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
