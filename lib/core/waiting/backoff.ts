import type { AcquireReply } from '../nodes/lock-node.ts';

/** No hint is answered later than this after it came. */
const MAX_HINT_JITTER_MS = 40;
const MAX_HINT_DOUBLINGS = 5;

/** What a failed try tells about when the next one can succeed. */
export interface FailedTry {
  readonly replies: readonly (AcquireReply | undefined)[];
  readonly quorum: number;
}

/** Facts on which the delay of the next try rests. */
export interface RetryFacts {
  /** Tries of this acquire so far that failed, at least 1. */
  readonly failures: number;
  /** Typical round trip to a quorum. */
  readonly roundTripMs: number;
  readonly ttlMs: number;
  /** Half of the first random wait. */
  readonly baseDelayMs: number;
  /** Upper bound of a random wait. */
  readonly maxDelayMs: number;
  /** Uniform in [0, 1). */
  readonly random: number;
}

/**
 * How long to wait for a hint before the next try.
 *
 * Behind a holder (one holder reported by a quorum), or while too many nodes are in quarantine: until enough leases or
 * quarantines have ended. Otherwise it may be a split vote of attempts that are giving up: full jitter, doubling.
 */
export function retryDelayMs(failed: FailedTry, facts: RetryFacts): number {
  const times: number[] = [];
  const holders = new Map<string, number>();
  let usable = 0;
  let quarantined = 0;
  for (const reply of failed.replies) {
    if (reply?.kind === 'accepted' || reply?.kind === 'stale' || reply?.kind === 'ahead')
      usable += 1;
    else if (reply?.kind === 'quarantined') {
      quarantined += 1;
      times.push(reply.remainingMs);
    } else if (reply?.kind === 'held') {
      holders.set(reply.holder, (holders.get(reply.holder) ?? 0) + 1);
      if (reply.remainingMs >= 0) times.push(reply.remainingMs);
    }
  }
  const behindHolder = Math.max(0, ...holders.values()) >= failed.quorum;
  const inQuarantine = failed.replies.length - quarantined < failed.quorum;
  const missing = failed.quorum - usable;
  if ((behindHolder || inQuarantine) && missing >= 1 && times.length >= missing) {
    times.sort((a, b) => a - b);
    const until = times[missing - 1] ?? 0;
    return Math.min(until + 1 + hintJitterMs(facts), facts.ttlMs);
  }
  const ceiling = Math.min(facts.baseDelayMs * 2 ** Math.min(facts.failures, 30), facts.maxDelayMs);
  return Math.min(facts.random * ceiling, facts.ttlMs);
}

/** How long to let a release reach the other nodes before trying, and to keep woken processes apart. */
export function hintJitterMs(
  facts: Pick<RetryFacts, 'failures' | 'roundTripMs' | 'random'>,
): number {
  const ceiling = facts.roundTripMs * 2 ** Math.min(facts.failures, MAX_HINT_DOUBLINGS);
  return Math.min(facts.random * ceiling, MAX_HINT_JITTER_MS);
}

/** No other process lets a hint pass for longer, if its round trips are like ours. */
export function longestHintJitterMs(roundTripMs: number): number {
  return Math.min(roundTripMs * 2 ** MAX_HINT_DOUBLINGS, MAX_HINT_JITTER_MS);
}
