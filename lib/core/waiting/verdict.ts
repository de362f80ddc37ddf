import { LockBusyError, QuorumUnavailableError, type NodeCause } from '../errors.ts';
import type { KeyRecord } from '../holding/key-table.ts';
import { LATE_MS } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { FailedAttempt, LockCall } from '../voting/attempt.ts';

// Knowledge of the keys of a caller, and so the error with which it ends: contention and outage are never confused.

/** The caller that a verdict is about. */
export interface VerdictSubject {
  readonly call: LockCall;
  readonly records: readonly KeyRecord[];
  readonly arrivedAtMs: number;
  /** Latest try of it that found something, or its only one. */
  readonly latest: FailedAttempt | undefined;
}

/**
 * The conclusive answer, if there is one: the newer of a holder since the caller came, and of an outage. One that was over
 * before it came counts up to this age: at the end of its time, never instead of a try of its own.
 */
export function answerFor(
  set: NodeSet,
  caller: VerdictSubject,
  nowMs: number,
  longestAgeMs = 0,
): 'busy' | FailedAttempt | undefined {
  const { records, arrivedAtMs } = caller;
  let busyAtMs = Number.NEGATIVE_INFINITY;
  let outage: FailedAttempt | undefined;
  for (const record of records) {
    if (record.busyUntilMs > arrivedAtMs)
      busyAtMs = Math.max(busyAtMs, Math.min(record.busyUntilMs, nowMs));
    if ((record.outage?.endedAtMs ?? 0) > (outage?.endedAtMs ?? 0)) outage = record.outage;
  }
  const isNewer = outage !== undefined && outage.endedAtMs > busyAtMs;
  if (isNewer && isStillTrue(set, caller, outage!, nowMs, longestAgeMs)) return outage;
  return busyAtMs > Number.NEGATIVE_INFINITY ? 'busy' : undefined;
}

/** An outage is over when a later try on any key had a quorum; an old one, or one of less patience, says nothing. */
function isStillTrue(
  { quorum, sessions }: NodeSet,
  { call, arrivedAtMs }: VerdictSubject,
  { endedAtMs, timeoutMs, votes }: FailedAttempt,
  nowMs: number,
  longestAgeMs: number,
): boolean {
  if (quorum.lastAnswerAtMs > endedAtMs) return false;
  if (timeoutMs < call.settings.nodeTimeoutMs && !votes.isRefused) return false;
  // Connections that are being made count only at the end; nodes that have been away for long are not waited for.
  const remade = sessions.map(({ health }) => health.reported !== 'failing');
  if (longestAgeMs === 0 && votes.isPossibleWith(remade)) return false;
  return endedAtMs >= arrivedAtMs || nowMs - endedAtMs <= longestAgeMs;
}

/** Time that the request of the try ahead waited in this process, which was busy: the nodes have their whole time from then. */
export function heldBackMs({ records, arrivedAtMs }: VerdictSubject): number {
  let longestMs = 0;
  for (const { trying } of records)
    longestMs = Math.max(longestMs, trying?.attempt?.round?.heldBackMs(arrivedAtMs) ?? 0);
  return longestMs > LATE_MS ? longestMs : 0;
}

/** `slots`: how many tries of this process were under way when the caller stood in line for one; undefined when it did not. */
export function errorFor(
  set: NodeSet,
  caller: VerdictSubject,
  nowMs: number,
  slots: number | undefined,
): LockBusyError | QuorumUnavailableError {
  const { call, records, arrivedAtMs, latest } = caller;
  const { keys, settings } = call;
  const waitedMs = nowMs - arrivedAtMs;
  const hasLost = latest?.finding === 'contention';
  let answer = answerFor(set, caller, nowMs, 2 * settings.nodeTimeoutMs);
  // Votes of it were split, or a node answered others a moment ago.
  if (hasLost || records.some((record) => isInUse(record, arrivedAtMs, nowMs))) answer ??= 'busy';
  // Slot is what stood in its way in the end, unless it lost before.
  if (answer === 'busy' && (slots === undefined || hasLost)) return busyError(caller, nowMs);
  let causes = typeof answer === 'object' ? answer.causes() : undefined;
  if (slots === undefined) {
    // Attempt of another caller of this process may have asked the nodes all the time that this one waited.
    const { trying } = records.find((record) => record.trying?.attempt !== undefined) ?? {};
    const round = trying?.attempt?.round;
    const isOpen = round !== undefined && round.startedAtMs <= arrivedAtMs;
    causes ??= latest?.causes() ?? (isOpen ? round.causes() : undefined);
  }
  causes ??= [notTried(waitedMs, slots)];
  const { options, sessions } = set;
  return new QuorumUnavailableError(keys, waitedMs, options.quorum, sessions.length, causes);
}

function isInUse({ namedUntilMs, trying }: KeyRecord, arrivedAtMs: number, nowMs: number): boolean {
  return nowMs <= namedUntilMs || trying?.attempt?.isAnsweredSince(arrivedAtMs) === true;
}

function busyError({ call, records, arrivedAtMs, latest }: VerdictSubject, nowMs: number) {
  let freeInMs: number | undefined;
  let causes = latest?.causes;
  let isHeldHere = false;
  for (const { lock, foreign } of records) {
    causes ??= foreign?.causes;
    isHeldHere ||= lock !== undefined;
    const inMs = lock?.occupiedMs ?? (foreign?.freeAtMs ?? Number.NaN) - nowMs;
    if (inMs > (freeInMs ?? 0)) freeInMs = inMs;
  }
  return new LockBusyError(call.keys, nowMs - arrivedAtMs, freeInMs, causes?.(), isHeldHere);
}

/** Cause where no node was asked, or none had the time to answer: it is this process that was too busy. */
function notTried(elapsedMs: number, slots: number | undefined): NodeCause {
  const reason = slots === undefined ? 'not-tried' : 'overloaded';
  const message =
    slots === undefined
      ? 'the time was over before a node could be asked'
      : `${slots} tries for other locks were under way all the time (option concurrentTries)`;
  return { address: 'this process', reason, message, elapsedMs };
}
