import { jitterMs } from '../holding/queue-place.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { FailedAttempt } from '../voting/attempt.ts';

/** Facts on which the delay of the next try rests. */
export interface BackoffFacts {
  /** Tries in a row that failed, at least 1. */
  readonly failures: number;
  /** Half of the first random wait. */
  readonly baseDelayMs: number;
  /** Upper bound of a random wait. */
  readonly maxDelayMs: number;
  /** Uniform in [0, 1). */
  readonly random: number;
}

/**
 * Half of the first random wait. Nodes that refuse by themselves are asked again in their own time: a join, or a sign of
 * life, wakes all callers.
 */
function baseDelayMs(roundTripMs: number, nodeTimeoutMs: number, isRefused: boolean) {
  return Math.max(2 * roundTripMs, isRefused ? nodeTimeoutMs / 10 : 0);
}

/** After what may have been a split vote of attempts that are giving up: full jitter, doubling. */
export function backoffMs({ failures, baseDelayMs, maxDelayMs, random }: BackoffFacts): number {
  return random * Math.min(baseDelayMs * 2 ** Math.min(failures, 30), maxDelayMs);
}

/**
 * After a try that failed: when to try again where nobody has the key; and until when a holder has it that nodes named, with what
 * keeps those apart who all wait for that moment.
 */
export function nextTryMs(
  { environment, options, roundTripMs }: NodeSet,
  { ttlMs, nodeTimeoutMs }: ResolvedAcquire,
  { votes, endedAtMs }: FailedAttempt,
  failures: number,
): { readonly pausedUntilMs: number; readonly untilFreeMs: number } {
  const random = environment.random.fraction();
  const pauseMs = backoffMs({
    failures,
    baseDelayMs:
      options.retryBaseDelayMs ?? baseDelayMs(roundTripMs, nodeTimeoutMs, votes.isRefused),
    maxDelayMs: options.retryMaxDelayMs ?? nodeTimeoutMs,
    random,
  });
  const { freeInMs } = votes;
  const apartMs = jitterMs(failures, roundTripMs, random);
  const waitMs = freeInMs === undefined ? pauseMs : freeInMs + 1 + apartMs;
  return {
    pausedUntilMs: endedAtMs + Math.min(pauseMs, ttlMs),
    untilFreeMs: endedAtMs + Math.min(waitMs, ttlMs),
  };
}
