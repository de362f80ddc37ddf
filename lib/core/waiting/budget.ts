import type { ResolvedAcquire } from '../options/resolve-options.ts';

/** The round trips that a first try needs: two ballots, and as much again. */
const TRY_ROUND_TRIPS = 4;

export interface Budget {
  /** A caller that has not tried does so now, although one ahead of it pauses: the rest of its time is needed for that try. */
  readonly tryByMs: number;
  /** The end for a caller that has an answer by then. */
  readonly waitUntilMs: number;
  /** The end for a caller that has none: it waits for a node timeout at least, so that the nodes can give one. */
  readonly endsAtMs: number;
}

/** The times of a caller that waits for so long. */
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
