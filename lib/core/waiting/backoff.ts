import type { KeyRecord } from '../holding/key-table.ts';
import type { Turns } from '../holding/turns.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { FailedAttempt } from '../voting/attempt.ts';

/** No hint is answered later than this after it came. */
const MAX_HINT_JITTER_MS = 40;
const MAX_HINT_DOUBLINGS = 5;
const LEAST_HINT_DOUBLINGS = -4;
/** For the jitter after a hint a caller counts at most this many failures; more would only spread callers further. */
const FAIR_FAILURES = 3;
/** A newcomer does not know how many there are: it becomes more urgent once for so many turns lost. */
const NEWCOMER_PATIENCE = 4;
/** Those that are not next spread over up to eight round trips where others are farther away, or gone. */
const MOST_OVERTAKEN = 2;
const QUICK_ROUND_TRIPS = 8;
/** A process that has let others go first waits longest. */
const STEPPED_BACK_FAILURES = 5;
/** The key is free meanwhile, and others may not want it any more. */
const MAX_LONGER_TURN_MS = 80;

/** What the order between processes rests on. */
export type Order = Pick<
  Turns,
  'ahead' | 'rivals' | 'lostTurns' | 'overtaken' | 'voices' | 'betweenMs'
>;

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

/** How long to let a release reach the other nodes before trying, and to keep woken processes apart. */
export function hintJitterMs(failures: number, roundTripMs: number, random: number): number {
  const ceilingMs = roundTripMs * 2 ** Math.min(failures, MAX_HINT_DOUBLINGS);
  return Math.min(random * ceilingMs, MAX_HINT_JITTER_MS);
}

/**
 * When a caller tries after a hint. One that lost often must not be slower than a newcomer; only a process that has let others go
 * first waits longer.
 */
export function afterHintMs(set: NodeSet, records: readonly KeyRecord[], tries: number): number {
  const { roundTripMs, environment, nowMs } = set;
  const failures = records.some(({ turns }) => turns?.hasSteppedBack)
    ? STEPPED_BACK_FAILURES
    : Math.min(tries, FAIR_FAILURES);
  // A fake clock may have turned back since.
  const hintAtMs = Math.min(nowMs, Math.max(...records.map((each) => each.hintAtMs ?? 0)));
  const random = environment.random.fraction();
  // A set needs all of its keys at once: it has no place in the order of one of them.
  const turns = records.length === 1 ? records[0]?.turns : undefined;
  const isOrdered = turns !== undefined && turns.passed > 0;
  const delayMs = isOrdered
    ? inOrderMs(turns, failures, set, random)
    : hintJitterMs(failures, roundTripMs, random);
  return hintAtMs + delayMs;
}

/**
 * Processes that want a key again and again get it one after the other. The one that all others have had it before asks as soon as
 * a quorum of nodes is known to be free, and the others give it the time of a try. Then it is as open as it is to newcomers:
 * those ahead may not want it any more, or be farther away. One that loses a turn all the same does not ask at the same moment
 * again as the one that took it, and sooner each time.
 */
export function inOrderMs(
  { ahead, rivals, lostTurns, overtaken, voices, betweenMs }: Order,
  failures: number,
  { quorum, roundTripMs }: Pick<NodeSet, 'quorum' | 'roundTripMs'>,
  random: number,
): number {
  if (ahead > 0) {
    const doublings = Math.max(failures, 1 + Math.min(overtaken, MOST_OVERTAKEN));
    // Where releases follow each other that quickly, its try would meet the next free moment before the process that is next notices.
    const isQuick = betweenMs < QUICK_ROUND_TRIPS * roundTripMs;
    const untilNextMs = isQuick ? Math.min(1.5 * betweenMs, MAX_HINT_JITTER_MS) : 0;
    return 2 * roundTripMs + untilNextMs + hintJitterMs(doublings, roundTripMs, random);
  }
  const isNewcomer = rivals === 0;
  if (!isNewcomer && lostTurns === 0) return voices >= quorum ? 0 : roundTripMs;
  const doublings = isNewcomer
    ? failures - Math.floor(lostTurns / NEWCOMER_PATIENCE)
    : 2 - lostTurns;
  return hintJitterMs(Math.max(LEAST_HINT_DOUBLINGS, doublings), roundTripMs, random);
}

/**
 * How long it is the turn of other processes: at first until any other one must have tried, if its round trips take as long as
 * here; twice as long after each turn that none of them took.
 */
export function stepBackMs(roundTripMs: number, untakenTurns: number): number {
  const jitterMs = Math.min(roundTripMs * 2 ** MAX_HINT_DOUBLINGS, MAX_HINT_JITTER_MS);
  const firstMs = jitterMs + 4 * roundTripMs;
  return Math.max(firstMs, Math.min(firstMs * 2 ** untakenTurns, MAX_LONGER_TURN_MS));
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
  const jitterMs = hintJitterMs(failures, roundTripMs, random);
  const waitMs = freeInMs === undefined ? pauseMs : freeInMs + 1 + jitterMs;
  return {
    pausedUntilMs: endedAtMs + Math.min(pauseMs, ttlMs),
    untilFreeMs: endedAtMs + Math.min(waitMs, ttlMs),
  };
}
