import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { FailedAttempt } from '../voting/attempt.ts';

const MAX_JITTER_MS = 40;

/** A random pause that keeps processes apart which wait for the same moment. */
export function jitterMs({ quorum, environment }: NodeSet, roundTrips = 1): number {
  const random = environment.random.fraction();
  return random * Math.min(roundTrips * quorum.roundTripMs, MAX_JITTER_MS);
}

/**
 * When to try again after so many tries that failed. Where the lease of a holder, or a quarantine, ends at a known time, the try
 * comes then, a little apart from those of others. After what may have been a split vote, the pause is random and doubles.
 * Nodes that refuse are asked at their leisure: a join, or a sign of life, wakes all callers.
 */
export function nextTryMs(
  nodes: NodeSet,
  { ttlMs, nodeTimeoutMs }: ResolvedAcquire,
  { votes, endedAtMs }: FailedAttempt,
  failures: number,
): number {
  const { environment, options, quorum } = nodes;
  const { freeInMs, isQuarantined, isRefused, namedHolder } = votes;
  const isTimed = isQuarantined || namedHolder !== undefined;
  if (isTimed && freeInMs !== undefined)
    return endedAtMs + Math.min(freeInMs + 1 + jitterMs(nodes), ttlMs);
  const leastMs = Math.max(2 * quorum.roundTripMs, isRefused ? nodeTimeoutMs / 10 : 0);
  const baseMs = options.retryBaseDelayMs ?? leastMs;
  const mostMs = Math.min(options.retryMaxDelayMs ?? nodeTimeoutMs, ttlMs);
  const pauseMs = Math.min(baseMs * 2 ** Math.min(failures, 30), mostMs);
  return endedAtMs + environment.random.fraction() * pauseMs;
}
