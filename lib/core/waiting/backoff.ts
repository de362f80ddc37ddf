import { jitterMs } from '../holding/queue-place.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { FailedAttempt } from '../voting/attempt.ts';

/**
 * When to try again after so many tries that failed. Where the time is known at which a holder's lease, or a quarantine, ends:
 * then, but apart from others who wait for that moment. After what may have been a split vote of attempts that are giving up:
 * full jitter, doubling. Nodes that refuse by themselves are asked again in their own time: a join, or a sign of life, wakes
 * all callers.
 */
export function nextTryMs(
  { environment, options, quorum: { roundTripMs } }: NodeSet,
  { ttlMs, nodeTimeoutMs }: ResolvedAcquire,
  { votes, endedAtMs }: FailedAttempt,
  failures: number,
): number {
  const random = environment.random.fraction();
  const { freeInMs, isQuarantined, isRefused, namedHolder } = votes;
  const isTimed = isQuarantined || namedHolder !== undefined;
  if (isTimed && freeInMs !== undefined)
    return endedAtMs + Math.min(freeInMs + 1 + jitterMs(roundTripMs, random), ttlMs);
  const leastMs = Math.max(2 * roundTripMs, isRefused ? nodeTimeoutMs / 10 : 0);
  const baseMs = options.retryBaseDelayMs ?? leastMs;
  const mostMs = options.retryMaxDelayMs ?? nodeTimeoutMs;
  return endedAtMs + random * Math.min(baseMs * 2 ** Math.min(failures, 30), mostMs, ttlMs);
}
