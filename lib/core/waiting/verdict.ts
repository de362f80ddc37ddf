import { LockBusyError, QuorumUnavailableError } from '../errors.ts';
import type { NodeCause } from '../errors.ts';
import type { KeyRecord } from '../holding/key-table.ts';
import { POLL_MS } from '../holding/queue-place.ts';
import { LATE_MS } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { FailedAttempt } from '../voting/attempt.ts';

// What is known of the keys of a caller, and so with which error it ends: contention and outage are never confused.

/** The caller that a verdict is about. */
export interface VerdictSubject {
  readonly keys: readonly string[];
  readonly records: readonly KeyRecord[];
  readonly settings: ResolvedAcquire;
  readonly arrivedAtMs: number;
  /** Its latest try that found something, or its only one. */
  readonly latest: FailedAttempt | undefined;
}

/**
 * What a try that failed proves: others have the keys, or vote for themselves; or no quorum can be had, although the nodes had
 * their whole time, or refused without being waited for. Else it was too slow, cut short, or had the wrong clock.
 */
export function findingOf(
  { votes, isTooSlow, timeoutMs }: FailedAttempt,
  nodeTimeoutMs: number,
): 'contention' | 'outage' | 'nothing' {
  if (isTooSlow || votes.isWrongClock) return 'nothing';
  if (votes.isContention) return 'contention';
  return timeoutMs >= nodeTimeoutMs || votes.isRefused ? 'outage' : 'nothing';
}

/**
 * The conclusive answer, if there is one: the newer of a holder since the caller came, and of an outage. One that was over
 * before it came counts up to this age: at the end of its time, never instead of a try of its own. Only then, too, one of
 * connections that are being made.
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
  { lastQuorumAtMs, sessions }: NodeSet,
  { settings, arrivedAtMs }: VerdictSubject,
  { endedAtMs, timeoutMs, votes }: FailedAttempt,
  nowMs: number,
  longestAgeMs: number,
): boolean {
  if (lastQuorumAtMs > endedAtMs) return false;
  if (timeoutMs < settings.nodeTimeoutMs && !votes.isRefused) return false;
  // Nodes that have been away for long are not waited for.
  const remade = sessions.map(({ reported }) => reported !== 'failing');
  if (longestAgeMs === 0 && votes.isPossibleWith(remade)) return false;
  return endedAtMs >= arrivedAtMs || nowMs - endedAtMs <= longestAgeMs;
}

/** How long the request of the try ahead did not leave this process, which was busy: the nodes have their whole time from then. */
export function heldBackMs({ records, arrivedAtMs }: VerdictSubject): number {
  let longestMs = 0;
  for (const { trying } of records)
    longestMs = Math.max(longestMs, trying?.attempt?.heldBackMs(arrivedAtMs) ?? 0);
  return longestMs > LATE_MS ? longestMs : 0;
}

/** When this process did not run at the end of its time, the try ahead may have answers that were not read yet. */
export function mayBeAnswered({ records }: VerdictSubject, lateMs: number): boolean {
  return lateMs > LATE_MS && records.some(({ trying }) => trying !== undefined);
}

/** `slots`: how many tries of this process were under way when the caller stood in line for one; undefined when it did not. */
export function errorFor(
  set: NodeSet,
  caller: VerdictSubject,
  nowMs: number,
  slots: number | undefined,
): LockBusyError | QuorumUnavailableError {
  const { keys, records, settings, arrivedAtMs, latest } = caller;
  const waitedMs = nowMs - arrivedAtMs;
  const answer = answerFor(set, caller, nowMs, 2 * settings.nodeTimeoutMs);
  const isBusy = answer === 'busy' || (answer === undefined && isInUse(set, caller, nowMs));
  // What stood in its way in the end is a slot, unless a node named a holder since it came.
  const wasNamed = records.some(({ named }) => (named?.atMs ?? 0) > arrivedAtMs);
  if (isBusy && (slots === undefined || wasNamed)) return busyError(caller, nowMs);
  let causes = typeof answer === 'object' ? answer.causes() : undefined;
  if (slots === undefined) causes ??= latest?.causes() ?? openCauses(caller, nowMs);
  causes ??= [notTried(waitedMs, slots)];
  return new QuorumUnavailableError(keys, waitedMs, set.quorum, set.sessions.length, causes);
}

/** What counts when nothing conclusive was found: its votes were split, or a node answered others a moment ago. */
function isInUse(
  { lastQuorumAtMs }: NodeSet,
  { records, settings, arrivedAtMs, latest }: VerdictSubject,
  nowMs: number,
): boolean {
  if (latest !== undefined) {
    const finding = findingOf(latest, settings.nodeTimeoutMs);
    if (finding === 'contention') return true;
    // One that a node named while no quorum could be asked is no answer.
    const isCutShort = finding === 'nothing' && !latest.isTooSlow;
    if (isCutShort && latest.votes.held > 0 && lastQuorumAtMs > arrivedAtMs) return true;
  }
  const recentMs = Math.max(2 * settings.nodeTimeoutMs, POLL_MS);
  return records.some(
    ({ named, trying }) =>
      (named !== undefined && nowMs <= Math.min(named.atMs + recentMs, named.freeAtMs)) ||
      trying?.attempt?.isAnsweredSince(arrivedAtMs) === true,
  );
}

function busyError({ keys, records, arrivedAtMs, latest }: VerdictSubject, nowMs: number) {
  let freeInMs: number | undefined;
  let causes = latest?.causes;
  let isHeldHere = false;
  for (const { lock, foreign } of records) {
    causes ??= foreign?.causes;
    isHeldHere ||= lock !== undefined;
    const inMs = lock?.occupiedMs ?? (foreign?.freeAtMs ?? Number.NaN) - nowMs;
    if (inMs > (freeInMs ?? 0)) freeInMs = inMs;
  }
  return new LockBusyError(keys, nowMs - arrivedAtMs, freeInMs, causes?.(), isHeldHere);
}

/** What nodes say to another caller of this process, which has asked them all the time that this one waited. */
function openCauses({ records, arrivedAtMs }: VerdictSubject, nowMs: number) {
  const { trying } = records.find((record) => record.trying?.attempt !== undefined) ?? {};
  return trying?.attempt?.openCauses(arrivedAtMs, nowMs);
}

/** No node was asked, or none had the time to answer: it is this process that was too busy. */
function notTried(elapsedMs: number, slots: number | undefined): NodeCause {
  const address = 'this process';
  if (slots === undefined) {
    const message = 'the time was over before a node could be asked';
    return { address, reason: 'not-tried', message, elapsedMs };
  }
  const message = `${slots} tries for other locks were under way all the time (option concurrentTries)`;
  return { address, reason: 'overloaded', message, elapsedMs };
}
