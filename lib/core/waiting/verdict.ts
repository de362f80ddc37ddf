import { LockBusyError, QuorumUnavailableError, type NodeCause } from '../errors.ts';
import { LATE_MS } from '../deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { FailedAttempt, LockCall } from '../voting/attempt.ts';
import type { VoteRound } from '../voting/vote-round.ts';
import type { KeyRecord } from './keys.ts';

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
  nodes: NodeSet,
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
  if (isNewer && isStillTrue(nodes, caller, outage!, nowMs, longestAgeMs)) return outage;
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
  const timesMs = roundsAhead(records).map((round) => round.heldBackMs(arrivedAtMs));
  const longestMs = Math.max(0, ...timesMs);
  return longestMs > LATE_MS ? longestMs : 0;
}

function roundsAhead(records: readonly KeyRecord[]): VoteRound[] {
  return records.flatMap(({ trying }) => trying?.attempt?.round ?? []);
}

/**
 * The error of a caller whose time is over: the first rule that applies. `slots`: how many tries of this process were under way
 * when it stood in line for one; undefined when it did not.
 */
export function errorFor(
  nodes: NodeSet,
  caller: VerdictSubject,
  nowMs: number,
  slots: number | undefined,
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
  if (slots !== undefined && !hasLost) {
    const message = `${slots} tries for other locks were under way all the time (option concurrentTries)`;
    return ownFault('overloaded', message);
  }
  // The nodes answered a try ahead of it, or named another holder a moment ago.
  const hadQuorum = quorum.lastAnswerAtMs > arrivedAtMs;
  const ahead = roundsAhead(records);
  const isBehind = ahead.some(({ votes }) => hadQuorum || votes.held > 0);
  const isNamed = records.some(({ namedUntilMs }) => nowMs <= namedUntilMs);
  if (answer === 'busy' || hasLost || isBehind || isNamed) return busyError(caller, nowMs);
  // A try ahead of it that began before it came asked the nodes all the time that it waited.
  const round = ahead.find(({ startedAtMs }) => startedAtMs <= arrivedAtMs);
  const causes = latest?.causes() ?? round?.causes();
  if (causes !== undefined) return unavailable(causes);
  return ownFault('not-tried', 'the time was over before a server could be asked');
}

function busyError({ call, records, arrivedAtMs, latest }: VerdictSubject, nowMs: number) {
  let freeInMs: number | undefined;
  let causes = latest?.causes;
  let isHeldHere = false;
  let process: string | undefined;
  for (const { lock, foreign } of records) {
    causes ??= foreign?.causes;
    process ??= foreign?.process();
    isHeldHere ||= lock !== undefined;
    const inMs = lock?.occupiedMs ?? (foreign?.freeAtMs ?? Number.NaN) - nowMs;
    if (inMs > (freeInMs ?? 0)) freeInMs = inMs;
  }
  const waitedMs = nowMs - arrivedAtMs;
  return new LockBusyError(call.keys, waitedMs, freeInMs, causes?.(), isHeldHere, process);
}
