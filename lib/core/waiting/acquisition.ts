import { brokenInvariant } from '../errors.ts';
import { HeldLock } from '../holding/held-lock.ts';
import type { SharedByLocks } from '../holding/release.ts';
import { Waiter, type KeyRecord } from '../holding/key-table.ts';
import { Attempt, microtask } from '../voting/attempt.ts';
import type { AttemptListener, AttemptOutcome, FailedAttempt } from '../voting/attempt.ts';
import type { NamedHolder } from '../voting/vote-count.ts';
import type { Admission, Candidate } from './admission.ts';
import { GRACE_OF_SET_MS, jitterMs } from '../holding/queue-place.ts';
import type { VoteReply } from '../nodes/lock-node.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { Call } from './call.ts';
import type { KnownProcesses } from './known-processes.ts';
import { answerFor, errorFor, heldBackMs } from './verdict.ts';

/** Round trips that a first try is left at least: two ballots, and as much again. */
const TRY_ROUND_TRIPS = 4;

/** The parts that all callers and locks of one service share. */
export interface SharedByCallers extends SharedByLocks {
  readonly admission: Admission;
  readonly processes: KnownProcesses;
}

/**
 * - `looking`: decides what comes next, in a moment at the latest.
 * - `queued`: in line, until it is woken.
 * - `trying`: asks the nodes.
 * - `backingOff`: in line, and nothing but time stands in its way.
 * - `done`: has its lock or its error.
 */
type AcquisitionState = 'looking' | 'queued' | 'trying' | 'backingOff' | 'done';

/**
 * Acquire on its way: in line, try, wait, try again, within its budget.
 * It stands in the line of one key at a time, the one that blocks it. A set for which a key has become free while another one
 * is in use keeps the free one for a moment from later arrivals, as nodes do between processes.
 */
export class Acquisition extends Waiter implements Candidate, AttemptListener {
  readonly call: Call;
  readonly records: readonly KeyRecord[];
  readonly arrivedAtMs: number;
  tries = 0;
  attempt: Attempt | undefined = undefined;
  latest: FailedAttempt | undefined = undefined;
  readonly #shared: SharedByCallers;
  #state: AcquisitionState = 'looking';
  #resolve: ((lock: HeldLock) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  /** Time of its next try at the earliest. Undefined at first: a time is an object of its own, which many callers never need. */
  #pausedUntilMs: number | undefined;

  constructor(shared: SharedByCallers, call: Call) {
    super();
    this.call = call;
    call.stage = this;
    this.#shared = shared;
    // A suspend that is over must not count against a caller that came after it.
    this.arrivedAtMs = shared.nodes.clock.checkedNowMs;
    this.records = shared.table.use(call.keys);
  }

  /**
   * Resolves with its lock, which is made before any other caller looks at its keys. Rejects with LockBusyError,
   * QuorumUnavailableError, or what its call was cancelled with.
   */
  run(): Promise<HeldLock> {
    // Promise and no async function: thousands may wait, and each would keep its registers.
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#look(this.arrivedAtMs);
    });
  }

  cancelled(): void {
    this.attempt?.cancel();
    this.wake();
  }

  wake(fromMs?: number): void {
    // Hints are of no use to a caller for which only a slot is missing, unless its turn has come.
    const isHint = fromMs !== undefined && !this.#isCalled;
    if (isHint && this.#shared.admission.isWaiting(this)) return;
    this.#pausedUntilMs = fromMs ?? this.#pausedUntilMs;
    if (this.#state !== 'queued' && this.#state !== 'backingOff') return;
    this.#state = 'looking';
    this.#shared.nodes.answers.cancel(this);
    // The code that wakes several callers finishes first.
    void microtask.then(() => this.#look(this.#shared.nodes.clock.nowMs));
  }

  onDeadline(): void {
    this.wake();
  }

  /** Looks again: tries, waits, or ends. */
  #look(nowMs: number): void {
    const { nodes, admission } = this.#shared;
    const { cancelled, settings } = this.call;
    try {
      if (cancelled !== undefined) throw cancelled.error;
      const { roundTripMs } = nodes.quorum;
      // Tries need the time for an answer, except the first.
      const neededMs = this.tries === 0 ? 0 : roundTripMs;
      const { waitMs, nodeTimeoutMs } = settings;
      const budgetMs = Math.max(waitMs, nodeTimeoutMs);
      // A caller without a try until then needs the rest of its time for one.
      const tryAtLatestMs =
        this.arrivedAtMs + budgetMs - Math.max(budgetMs / 2, TRY_ROUND_TRIPS * roundTripMs);
      const waitEndMs = this.arrivedAtMs + waitMs;
      const isLate = nowMs + neededMs >= Math.min(waitEndMs, tryAtLatestMs);
      const isOwed = isLate && answerFor(nodes, this, nowMs) === undefined;
      const budgetEndMs =
        this.arrivedAtMs + budgetMs + (isOwed && nowMs > this.arrivedAtMs ? heldBackMs(this) : 0);
      const endMs = isOwed ? budgetEndMs : waitEndMs;
      if (nowMs + neededMs >= endMs) {
        const slots = admission.isWaiting(this) ? admission.limit : undefined;
        throw errorFor(nodes, this, nowMs, slots);
      }
      // Caller has not tried, and nothing is known of its keys: it does not wait any longer for one ahead of it that pauses.
      const isOverdue = isOwed && this.tries === 0 && nowMs >= tryAtLatestMs;
      const wakeAtMs = this.#standInLine(nowMs, isOverdue);
      if (wakeAtMs === undefined) return this.#try(nowMs, budgetEndMs);
      this.#shared.table.yields(this, this.records);
      this.place?.owe(this, isOwed);
      const lookAgainMs = nowMs < tryAtLatestMs ? tryAtLatestMs : endMs;
      // Sleeps until it is woken, cancelled, or the time has come.
      const sleepMs = Math.min(wakeAtMs, lookAgainMs, endMs) - nowMs;
      nodes.answers.set(this, Math.max(1, Math.ceil(sleepMs)), nowMs);
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Takes a slot and marks the keys for a try, and returns undefined; or returns until when it waits to be woken. One
   * synchronous step, so that no two callers can try for one key.
   */
  #standInLine(nowMs: number, isOverdue: boolean): number | undefined {
    let blocking: KeyRecord | undefined;
    let inUse: KeyRecord | undefined;
    for (const record of this.records) {
      if (this.#isBlocking(record, nowMs, isOverdue) && (!blocking || record === this.place))
        blocking = record;
      if (blocking !== undefined || record.first !== undefined) inUse ??= record;
    }
    // A caller that arrives stands in the line of its first key that is in use here.
    if (this.place === undefined) inUse?.enter(this);
    const isHead = this.place === undefined || this.place.first === this;
    const { admission } = this.#shared;
    let untilMs: number | undefined;
    this.#state = 'queued';
    if (!isHead && !isOverdue) untilMs = Number.POSITIVE_INFINITY;
    else if (blocking !== undefined) untilMs = this.#waitFor(blocking, isHead, nowMs);
    else if (!isOverdue && (this.#pausedUntilMs ?? 0) > nowMs) {
      this.#state = 'backingOff';
      untilMs = this.#pausedUntilMs!;
    }
    if (untilMs !== undefined) admission.withdraw(this);
    else if (admission.enter(this)) {
      this.place?.leave(this);
      return undefined;
    }
    if (this.place === undefined) this.records[0]?.enter(this);
    return untilMs ?? Number.POSITIVE_INFINITY;
  }

  #isBlocking(record: KeyRecord, nowMs: number, isOverdue: boolean): boolean {
    if (record.lock !== undefined || record.trying !== undefined) return true;
    if (record.foreign !== undefined) {
      // Caller that is overdue is only behind a lease that is known to be over: one that runs is an answer.
      if (record.foreign.untilMs > nowMs && !isOverdue) return true;
      record.ended(nowMs);
    }
    const { reserved } = record;
    // Sets keep a key from later callers only.
    if (reserved === undefined || isOverdue) return false;
    return reserved.arrival < this.call.arrival && nowMs < reserved.untilMs;
  }

  /**
   * Stands in the line of the key that blocks it from now on; returns until when. The wake-up that brought it here goes on to the
   * next in the line that it leaves.
   */
  #waitFor(blocking: KeyRecord, isHead: boolean, nowMs: number): number {
    const { place } = this;
    const { arrival } = this.call;
    if (isHead && blocking !== place) {
      place?.leave(this);
      blocking.enter(this);
      if (place !== undefined && blocking.first === this && blocking.foreign === undefined)
        place.reserved ??= { arrival, untilMs: nowMs + GRACE_OF_SET_MS };
    }
    if (blocking.foreign === undefined)
      return blocking.reserved?.untilMs ?? Number.POSITIVE_INFINITY;
    if (blocking.queued === undefined && this.#queues) this.#shared.table.stand(blocking, nowMs);
    return blocking.foreign.untilMs;
  }

  #try(nowMs: number, deadlineMs: number): void {
    const { nodes, table } = this.#shared;
    this.#state = 'trying';
    for (const record of this.records) {
      if (record.trying !== undefined)
        throw brokenInvariant('one try at a time for a key in one process');
      record.trying = this;
      record.reserved = undefined;
      record.queued?.end();
    }
    this.tries += 1;
    this.attempt = new Attempt(nodes, this, this.call, deadlineMs);
    this.attempt.run(nowMs, table.nextBallot(this.call.keys));
  }

  sawFloor(floor: number): void {
    this.#shared.table.sawFloor(this.call.keys, floor);
  }

  /** The word of single nodes on holders is no answer for others, but the best that is left for one who found out nothing. */
  sawVotes({ replies }: FailedAttempt['votes'], nowMs: number): void {
    for (const reply of replies)
      if (reply?.kind === 'held') {
        const record = this.records[reply.index]!;
        record.wasNamed(nowMs, reply.remainingMs, this.call.settings.nodeTimeoutMs);
      }
  }

  /** Stands in line before its votes are given back, so that these name the first of all. */
  refused(nowMs: number): void {
    if (!this.#queues) return;
    for (const record of this.records) this.#shared.table.stand(record, nowMs);
  }

  /** Calls that do not wait take no turn of others, and get none. */
  get #queues(): boolean {
    return this.call.settings.waitMs > 0;
  }

  get isUrgent(): boolean {
    return this.call.isInside || this.#isCalled;
  }

  get #isCalled(): boolean {
    return this.records.some(({ queued }) => queued?.hasTurn === true);
  }

  /** Ends its try: it has the lock, or looks again. */
  ended(outcome: AttemptOutcome): void {
    try {
      for (const record of this.records) record.trying = undefined;
      this.#shared.admission.exit();
      if (outcome.kind === 'granted') {
        const lock = new HeldLock(this.#shared, this.call, this.records, outcome);
        const resolve = this.#resolve!;
        this.#leave();
        return resolve(lock);
      }
      this.#learn(outcome);
      // Caller stands in front of those who came later, before they look.
      this.#backOff(outcome).enter(this);
      for (const record of this.records) {
        record.first?.wake();
        record.wakeOwed();
      }
    } catch (error) {
      return this.#fail(error);
    }
    this.#look(this.#shared.nodes.clock.nowMs);
  }

  /**
   * Learns what a try means for all callers that wait for these keys. Callers that arrive together may split the votes, and none
   * of them has the lock then: they try again. What a quorum named, or nodes named twice in a row, is a holder: every attempt has
   * a name of its own.
   */
  #learn(outcome: FailedAttempt): void {
    const { finding, votes, endedAtMs } = outcome;
    if (finding === 'outage') for (const record of this.records) record.outage = outcome;
    // A holder that a node named while no quorum could be asked is no answer.
    const isCutShort = finding === 'nothing' && votes.yes < votes.quorum;
    const hadQuorum = this.#shared.nodes.quorum.lastAnswerAtMs > this.arrivedAtMs;
    if (finding === 'contention' || (isCutShort && hadQuorum)) this.sawVotes(votes, endedAtMs);
    if (finding === 'contention') {
      const { soleHolder, holders } = votes;
      if (soleHolder !== undefined && soleHolder === this.latest?.votes.soleHolder) {
        const record = this.records[holders[0]!.index]!;
        record.busyUntilMs = Math.max(record.busyUntilMs, endedAtMs);
      }
    }
    if (finding !== 'nothing') this.latest = outcome;
    this.latest ??= outcome;
  }

  /** Returns the record it is blocked on, as far as nodes said: a caller for another of its keys does not wait behind it. */
  #backOff(outcome: FailedAttempt): KeyRecord {
    const { votes, endedAtMs, causes } = outcome;
    const { namedHolder } = votes;
    const record = this.records[namedHolder?.index ?? -1];
    const untilMs = nextTryMs(this.#shared.nodes, this.call.settings, outcome, this.tries);
    if (record === undefined || namedHolder === undefined) {
      this.#pausedUntilMs = untilMs;
      return this.records[votes.holders[0]?.index ?? 0]!;
    }
    const { freeInMs } = votes;
    const freeAtMs = freeInMs === undefined ? undefined : endedAtMs + freeInMs;
    record.foreign = { untilMs, freeAtMs, causes, process: this.#processOf(namedHolder, votes) };
    record.busyUntilMs = freeAtMs ?? untilMs;
    return record;
  }

  /** Finds out whose process the holder is. The floor of a node is the token of the holder, where one key was asked for. */
  #processOf({ holder }: NamedHolder, { replies }: FailedAttempt['votes']) {
    const at = replies.findIndex((reply) => reply?.kind === 'held' && reply.holder === holder);
    const { index, floor } = replies[at] as Extract<VoteReply, { kind: 'held' }>;
    const token = this.records.length === 1 ? floor : 0;
    return this.#shared.processes.meet(holder, token, this.records[index]!.key, at);
  }

  #fail(error: unknown): void {
    const reject = this.#reject!;
    this.#leave();
    reject(error);
  }

  /** Nothing of it stays behind, whatever it ended with. */
  #leave(): void {
    const { table, admission, nodes } = this.#shared;
    this.#state = 'done';
    if (this.position !== -1) nodes.answers.cancel(this);
    if (this.place !== undefined) {
      admission.withdraw(this);
      this.place.leave(this);
    }
    for (const record of this.records) {
      if (record.reserved?.arrival === this.call.arrival) {
        record.reserved = undefined;
        record.first?.wake();
      }
    }
    for (const record of this.records) table.drop(record);
    // Acquisition that has waited is old: whatever it refers to would be kept until a full collection.
    this.attempt = this.latest = this.#resolve = this.#reject = this.call.stage = undefined;
  }
}

/**
 * When to try again after so many tries that failed. Where the time is known at which a holder's lease, or a quarantine, ends:
 * then, but apart from others who wait for that moment. After what may have been a split vote of attempts that are giving up:
 * full jitter, doubling. Nodes that refuse by themselves are asked again in their own time: a join, or a sign of life, wakes
 * all callers.
 */
function nextTryMs(
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
