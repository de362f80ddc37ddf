import { LockBusyError, QuorumUnavailableError, type NodeCause } from '../errors.ts';
import { LATE_MS } from '../deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { FailedAttempt, LockCall } from '../voting/attempt.ts';
import type { VoteRound } from '../voting/vote-round.ts';
import type { KeyRecord } from './keys.ts';

// What a caller is told when its time is over. A lock that is held is never called an outage, nor an outage a lock that is held.

export interface VerdictSubject {
  readonly call: LockCall;
  readonly records: readonly KeyRecord[];
  readonly arrivedAtMs: number;
  /** Whether one of its keys is enough for it: then it is busy only while all of them are. */
  readonly isForOneOf: boolean;
  /** Its latest try that found something, or its only one. */
  readonly latest: FailedAttempt | undefined;
}

/**
 * What is known for certain: a holder since the caller came, or an outage, whichever is newer. An outage from before it came
 * counts up to this age: at the end of its time, never instead of a try of its own.
 */
export function answerFor(
  nodes: NodeSet,
  caller: VerdictSubject,
  nowMs: number,
  longestAgeMs = 0,
): 'busy' | FailedAttempt | undefined {
  const { records, arrivedAtMs, isForOneOf } = caller;
  let busyAtMs = isForOneOf ? nowMs : Number.NEGATIVE_INFINITY;
  let outage: FailedAttempt | undefined;
  for (const record of records) {
    const { busyUntilMs } = record;
    const atMs =
      busyUntilMs > arrivedAtMs ? Math.min(busyUntilMs, nowMs) : Number.NEGATIVE_INFINITY;
    busyAtMs = isForOneOf ? Math.min(busyAtMs, atMs) : Math.max(busyAtMs, atMs);
    if ((record.outage?.endedAtMs ?? 0) > (outage?.endedAtMs ?? 0)) outage = record.outage;
  }
  const isNewer = outage !== undefined && outage.endedAtMs > busyAtMs;
  if (isNewer && isStillTrue(nodes, caller, outage!, nowMs, longestAgeMs)) return outage;
  return busyAtMs > Number.NEGATIVE_INFINITY ? 'busy' : undefined;
}

/** An outage is over when a later try for any key had a quorum. One that is old, or was found with less patience, says nothing. */
function isStillTrue(
  { quorum, sessions }: NodeSet,
  { call, arrivedAtMs }: VerdictSubject,
  { endedAtMs, timeoutMs, votes }: FailedAttempt,
  nowMs: number,
  longestAgeMs: number,
): boolean {
  if (quorum.lastAnswerAtMs > endedAtMs) return false;
  if (timeoutMs < call.settings.nodeTimeoutMs && !votes.isRefused) return false;
  // A connection that was just cut may be back in time: only the end tells. A node that was away for long is not waited for.
  const remade = sessions.map(({ health }) => health.reported !== 'failing');
  if (longestAgeMs === 0 && votes.isPossibleWith(remade)) return false;
  return endedAtMs >= arrivedAtMs || nowMs - endedAtMs <= longestAgeMs;
}

/** For how long this process was too busy to send the request of the try ahead: the time of the nodes began only then. */
export function heldBackMs({ records, arrivedAtMs }: VerdictSubject): number {
  const timesMs = roundsAhead(records).map((round) => round.heldBackMs(arrivedAtMs));
  const longestMs = Math.max(0, ...timesMs);
  return longestMs > LATE_MS ? longestMs : 0;
}

function roundsAhead(records: readonly KeyRecord[]): VoteRound[] {
  return records.flatMap(({ trying }) => trying?.attempt?.round ?? []);
}

/**
 * The error of a caller whose time is over: that of the first rule that applies. `entries`: how many tries were under way here while
 * it waited for one of its own; undefined where it did not.
 */
export function errorFor(
  nodes: NodeSet,
  caller: VerdictSubject,
  nowMs: number,
  entries: number | undefined,
): LockBusyError | QuorumUnavailableError {
  const { call, records, arrivedAtMs, latest } = caller;
  const { options, sessions, quorum } = nodes;
  const waitedMs = nowMs - arrivedAtMs;
  const unavailable = (causes: readonly NodeCause[]) =>
    new QuorumUnavailableError(call.keys, waitedMs, options.quorum, sessions.length, causes);
  const ownFault = (reason: NodeCause['reason'], message: string) =>
    unavailable([{ address: 'this process', reason, message, elapsedMs: waitedMs }]);

  const answer = answerFor(nodes, caller, nowMs, 2 * call.settings.nodeTimeoutMs);
  if (typeof answer === 'object') return unavailable(answer.causes());
  const hasLost = latest?.finding === 'contention';
  if (entries !== undefined && !hasLost) {
    const message = `${entries} tries for other locks were under way all the time (option concurrentTries)`;
    return ownFault('overloaded', message);
  }
  // A quorum answered a try of this process, or a node named a holder, a moment ago.
  const hadQuorum = quorum.lastAnswerAtMs > arrivedAtMs;
  const ahead = roundsAhead(records);
  const isBehind = ahead.some(({ votes }) => hadQuorum || votes.held > 0);
  const isNamed = records.some(({ namedUntilMs }) => nowMs <= namedUntilMs);
  if (answer === 'busy' || hasLost || isBehind || isNamed) return busyError(caller, nowMs);
  // A try ahead of it that began before it came has asked the nodes all the time.
  const round = ahead.find(({ startedAtMs }) => startedAtMs <= arrivedAtMs);
  const causes = latest?.causes() ?? round?.causes();
  if (causes !== undefined) return unavailable(causes);
  return ownFault('not-tried', 'the time was over before a server could be asked');
}

function busyError(caller: VerdictSubject, nowMs: number) {
  const { call, records, arrivedAtMs, isForOneOf, latest } = caller;
  let freeInMs: number | undefined;
  let causes = latest?.causes;
  let isHeldHere = false;
  let process: string | undefined;
  for (const { lock, foreign } of records) {
    causes ??= foreign?.causes;
    process ??= foreign?.process();
    isHeldHere ||= lock !== undefined;
    const inMs = lock?.occupiedMs ?? (foreign?.freeAtMs ?? Number.NaN) - nowMs;
    const bestMs = freeInMs ?? inMs;
    if (inMs > 0) freeInMs = isForOneOf ? Math.min(bestMs, inMs) : Math.max(bestMs, inMs);
  }
  const waitedMs = nowMs - arrivedAtMs;
  const { keys, settings } = call;
  const found = [waitedMs, freeInMs, causes?.(), isHeldHere, process] as const;
  return new LockBusyError(keys, ...found, settings.permits);
}
