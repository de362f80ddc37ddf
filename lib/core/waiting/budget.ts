import type { ResolvedAcquire } from '../options/resolve-options.ts';

/** Round trips that a first try is left at least: two ballots, and as much again. */
const TRY_ROUND_TRIPS = 4;

/** The times of one caller. */
export interface Budget {
  /** It tries at this time at the latest, although one ahead of it pauses: it needs the rest of its time for a try of its own. */
  readonly tryByMs: number;
  /** The end of its `wait`, for one that has an answer by then. */
  readonly waitUntilMs: number;
  /** The end for one without an answer: it is given a node timeout at least, in which the nodes could give one. */
  readonly endsAtMs: number;
}

export function budgetOf(
  arrivedAtMs: number,
  { waitMs, nodeTimeoutMs }: Pick<ResolvedAcquire, 'waitMs' | 'nodeTimeoutMs'>,
  roundTripMs: number,
): Budget {
  const budgetMs = Math.max(waitMs, nodeTimeoutMs);
  const endsAtMs = arrivedAtMs + budgetMs;
  const tryMs = Math.max(budgetMs / 2, TRY_ROUND_TRIPS * roundTripMs);
  return { tryByMs: endsAtMs - tryMs, waitUntilMs: arrivedAtMs + waitMs, endsAtMs };
}
