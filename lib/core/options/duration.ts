import { RedlockConfigError } from '../errors.ts';

/** A span of time: a number of milliseconds, or a number with its unit. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** The longest delay a Node.js timer can hold, about 24.8 days. */
export const MAX_DURATION_MS = 2_147_483_647;

/**
 * Whole milliseconds of `value`, rounded: servers take no others, and `'16.1s'` or `10_000 / 3` are none.
 *
 * @throws RedlockConfigError when it is not a finite duration between `minMs` and `maxMs`
 */
export function durationMs(
  option: string,
  value: Duration,
  minMs = 0,
  maxMs = MAX_DURATION_MS,
): number {
  const ms = Math.round(typeof value === 'number' ? value : parseDuration(value));
  if (ms >= minMs && ms <= maxMs) return ms;
  throw new RedlockConfigError(
    option,
    value,
    `give milliseconds, or a text such as '500ms', '30s', '5m', '1h' or '1d', from ${minMs} ms to ${maxMs} ms`,
  );
}

/** The duration for messages: with one decimal, never shorter than it is. */
export function inSeconds(ms: number): string {
  return `${Math.ceil(ms / 100) / 10} s`;
}

function parseDuration(text: unknown): number {
  const match = typeof text === 'string' ? PATTERN.exec(text) : null;
  return match ? Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS] : Number.NaN;
}
