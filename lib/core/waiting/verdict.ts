import { LockBusyError, QuorumUnavailableError } from '../errors.ts';
import type { NodeCause } from '../errors.ts';
import type { KeyRecord } from '../holding/key-table.ts';
import { POLL_MS } from '../holding/queue-place.ts';
import { LATE_MS } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { FailedAttempt } from '../voting/attempt.ts';

/** The acquire that a verdict is about. */
export interface VerdictSubject {
  readonly keys: readonly string[];
  readonly records: readonly KeyRecord[];
  readonly settings: ResolvedAcquire;
  readonly arrivedAtMs: number;
}

/** What an acquire has found out so far, and so what it reports when its time is over: contention and outage are never confused. */
export class Verdict {
  readonly #set: NodeSet;
  readonly #subject: VerdictSubject;
  /** When a holder of one of the keys was last known. */
  #sawHolderAtMs = Number.NEGATIVE_INFINITY;
  /** When a try of its own found a holder, and not only other callers that vote for themselves. */
  #foundHolderAtMs: number | undefined;
  /** Whom the nodes named in its latest try that found contention, if all named the same. */
  #soleHolder: string | undefined;
  /** Latest tries: one that found contention, one that found an outage, and one that was won too slowly. */
  #contention: FailedAttempt | undefined;
  #outage: FailedAttempt | undefined;
  #tooSlow: FailedAttempt | undefined;
  /** One that began so late that silence proves nothing, or that had no time left for a number that fits the nodes' clocks. */
  #tooLate: FailedAttempt | undefined;

  constructor(set: NodeSet, subject: VerdictSubject) {
    this.#set = set;
    this.#subject = subject;
  }

  sawHolder(nowMs: number): void {
    this.#sawHolderAtMs = nowMs;
  }

  /** Records what a try of this caller means. An outage that counts for every waiter of these keys is kept in their records. */
  failed(outcome: FailedAttempt): void {
    const { votes, isTooSlow, timeoutMs } = outcome;
    const { records, settings } = this.#subject;
    if (isTooSlow) this.#tooSlow = outcome;
    else if (votes.isWrongClock) this.#tooLate = outcome;
    else if (votes.isContention) this.#lost(outcome);
    else if (timeoutMs >= settings.nodeTimeoutMs || votes.isRefused) {
      // The nodes had the whole time to answer, or refused without being waited for.
      this.#outage = outcome;
      for (const record of records) record.outage = outcome;
      for (const record of records) record.wakeImpatient();
    } else this.#tooLate = outcome;
  }

  /**
   * Callers that arrive together may split the votes, and none of them has the lock then: they try again. What a quorum
   * named, or nodes named twice in a row, is a holder: every attempt has a name of its own.
   */
  #lost(outcome: FailedAttempt): void {
    const { namedHolder, soleHolder } = outcome.votes;
    const isHolder = soleHolder !== undefined && soleHolder === this.#soleHolder;
    if (namedHolder.holder !== undefined || isHolder) this.#foundHolderAtMs = outcome.endedAtMs;
    this.#soleHolder = soleHolder;
    this.#contention = outcome;
  }

  /**
   * What can be reported now; undefined while nothing conclusive is known. An outage that was over before it came counts up to
   * this age: at the end of its time, never instead of a try of its own. Only then, too, one of connections that are being made.
   */
  answer(nowMs: number, longestAgeMs = 0): 'busy' | FailedAttempt | undefined {
    const { records, arrivedAtMs } = this.#subject;
    let busyAtMs = Math.max(this.#sawHolderAtMs, this.#foundHolderAtMs ?? -1);
    let outage = this.#outage;
    for (const record of records) {
      if (record.isHeld(nowMs)) busyAtMs = nowMs;
      else if (record.busyAtMs > arrivedAtMs) busyAtMs = Math.max(busyAtMs, record.busyAtMs);
      if ((record.outage?.endedAtMs ?? 0) > (outage?.endedAtMs ?? 0)) outage = record.outage;
    }
    if (
      outage !== undefined &&
      outage.endedAtMs > busyAtMs &&
      this.#isStillTrue(outage, nowMs, longestAgeMs)
    )
      return outage;
    return busyAtMs >= 0 ? 'busy' : undefined;
  }

  /**
   * How long the request of the try ahead did not leave this process, which was busy: the nodes have their whole time from then.
   */
  get heldBackMs(): number {
    const { records, arrivedAtMs } = this.#subject;
    const times = records.map(({ trying }) => trying?.attempt?.heldBackMs(arrivedAtMs) ?? 0);
    const longestMs = Math.max(...times);
    return longestMs > LATE_MS ? longestMs : 0;
  }

  /** This process did not run when the time was over: the try ahead may have answers that were not read yet. */
  mayBeAnswered(nowMs: number, deadlineMs: number): boolean {
    const isTried = this.#subject.records.some(({ trying }) => trying !== undefined);
    return isTried && nowMs - deadlineMs > LATE_MS && this.answer(nowMs) === undefined;
  }

  /** `slots`: how many tries of this process were under way when it stood in line for one; undefined when it did not. */
  error(nowMs: number, slots: number | undefined): LockBusyError | QuorumUnavailableError {
    const waitedMs = nowMs - this.#subject.arrivedAtMs;
    const recentMs = 2 * this.#subject.settings.nodeTimeoutMs;
    const answer = this.answer(nowMs, recentMs) ?? (this.#isInUse(nowMs) ? 'busy' : undefined);
    // What stood in its way in the end is a slot, unless a node named a holder since it came.
    if (answer === 'busy' && (slots === undefined || this.#wasNamed))
      return this.#busy(nowMs, waitedMs);
    const own =
      this.#tooSlow ?? (slots === undefined ? (this.#outage ?? this.#tooLate) : undefined);
    const found = typeof answer === 'object' ? answer : own;
    const { quorum, sessions } = this.#set;
    return new QuorumUnavailableError(
      this.#subject.keys,
      waitedMs,
      quorum,
      sessions.length,
      found?.causes() ?? this.#tryAhead(nowMs, slots) ?? [notTried(waitedMs, slots)],
    );
  }

  /** Another caller of this process has asked the nodes all the time that this one waited, and they did not answer. */
  #tryAhead(nowMs: number, slots: number | undefined): NodeCause[] | undefined {
    if (slots !== undefined) return undefined;
    const { records, arrivedAtMs } = this.#subject;
    const { trying } = records.find((record) => record.trying?.attempt !== undefined) ?? {};
    return trying?.attempt?.openCauses(arrivedAtMs, nowMs);
  }

  /** An outage is over when a later try on any key had a quorum; an old one, or one of less patience, says nothing. */
  #isStillTrue(
    { endedAtMs, timeoutMs, votes }: FailedAttempt,
    nowMs: number,
    longestAgeMs: number,
  ): boolean {
    const { settings, arrivedAtMs } = this.#subject;
    if (this.#set.lastQuorumAtMs > endedAtMs) return false;
    if (timeoutMs < settings.nodeTimeoutMs && !votes.isRefused) return false;
    // Nodes that have been away for long are not waited for.
    const remade = this.#set.sessions.map(({ health }) => health.reported !== 'failing');
    if (longestAgeMs === 0 && votes.isPossibleWith(remade)) return false;
    return endedAtMs >= arrivedAtMs || nowMs - endedAtMs <= longestAgeMs;
  }

  get #wasNamed(): boolean {
    const { records, arrivedAtMs } = this.#subject;
    return records.some(({ named }) => (named?.atMs ?? 0) > arrivedAtMs);
  }

  /** Says whether it is contention when nothing conclusive was found: its votes were split, or a node answered others a moment ago. */
  #isInUse(nowMs: number): boolean {
    const { records, settings, arrivedAtMs } = this.#subject;
    if (this.#contention !== undefined) return true;
    // One that a node named while no quorum could be asked is no answer.
    const hadQuorum = this.#tooLate !== undefined && this.#set.lastQuorumAtMs > arrivedAtMs;
    if (hadQuorum && this.#tooLate?.votes.held) return true;
    return records.some(({ named, trying }) => {
      if (trying?.attempt?.isAnsweredSince(arrivedAtMs) === true) return true;
      if (named === undefined) return false;
      // Word of a lease that runs comes no more often than this process asks.
      const pollMs = Number.isFinite(named.freeAtMs) ? POLL_MS : 0;
      const recentMs = Math.max(2 * settings.nodeTimeoutMs, pollMs);
      return nowMs <= Math.min(named.atMs + recentMs, named.freeAtMs);
    });
  }

  #busy(nowMs: number, waitedMs: number): LockBusyError {
    let freeInMs: number | undefined;
    let causes = (this.#contention ?? this.#tooLate)?.causes;
    let isHeldHere = false;
    for (const { lock, foreign } of this.#subject.records) {
      causes ??= foreign?.causes;
      isHeldHere ||= lock !== undefined;
      const inMs = lock?.occupiedMs ?? (foreign?.freeAtMs ?? Number.NaN) - nowMs;
      if (inMs > (freeInMs ?? 0)) freeInMs = inMs;
    }
    return new LockBusyError(this.#subject.keys, waitedMs, freeInMs, causes?.(), isHeldHere);
  }
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
