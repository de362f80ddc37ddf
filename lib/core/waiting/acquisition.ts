import { brokenInvariant } from '../errors.ts';
import { HeldLock } from '../holding/held-lock.ts';
import type { SharedByLocks } from '../holding/key-lock.ts';
import type { VoteReply } from '../nodes/lock-node.ts';
import { Attempt, microtask } from '../voting/attempt.ts';
import type { AttemptListener, AttemptOutcome, FailedAttempt } from '../voting/attempt.ts';
import type { Floors } from '../voting/floors.ts';
import type { NamedHolder } from '../voting/vote-count.ts';
import type { Admission, Candidate } from './admission.ts';
import { nextTryMs } from './back-off.ts';
import { budgetOf } from './budget.ts';
import type { Call } from './call.ts';
import { Waiter } from './key-line.ts';
import type { KeyRecord, Keys } from './keys.ts';
import type { KnownProcesses } from './known-processes.ts';
import { GRACE_OF_SET_MS } from './queue-place.ts';
import { answerFor, errorFor, heldBackMs } from './verdict.ts';

/** The parts that all callers and locks of one service share. */
export interface SharedByCallers extends SharedByLocks {
  readonly keys: Keys;
  readonly floors: Floors;
  readonly admission: Admission;
  readonly processes: KnownProcesses;
}

/** What a caller does next. It has a slot where it tries, and is woken at that time at the latest where it waits. */
type Decision = { readonly kind: 'try' } | { readonly kind: 'wait'; readonly untilMs: number };

const UNTIL_WOKEN: Decision = { kind: 'wait', untilMs: Number.POSITIVE_INFINITY };

/**
 * - `looking`: decides what comes next, in a moment at the latest.
 * - `waiting`: in line, until it is woken.
 * - `trying`: asks the nodes.
 * - `done`: has its lock or its error.
 */
type AcquisitionState = 'looking' | 'waiting' | 'trying' | 'done';

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
  /** Time of its next try at the earliest. */
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(shared: SharedByCallers, call: Call) {
    super();
    this.call = call;
    call.stage = this;
    this.#shared = shared;
    // A suspend that is over must not count against a caller that came after it.
    this.arrivedAtMs = shared.nodes.clock.checkedNowMs;
    this.records = shared.keys.use(call.keys);
  }

  /**
   * Resolves with its lock, which is made before any other caller looks at its keys. Rejects with LockBusyError,
   * QuorumUnavailableError, or what its call was cancelled with.
   */
  run(): Promise<HeldLock> {
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
    if (this.#state !== 'waiting') return;
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
      const budget = budgetOf(this.arrivedAtMs, settings, roundTripMs);
      // The end of a try that begins now. The first one is made however little time is left.
      const triedAtMs = this.tries === 0 ? nowMs : nowMs + roundTripMs;
      const isLate = triedAtMs >= Math.min(budget.waitUntilMs, budget.tryByMs);
      const isOwed = isLate && answerFor(nodes, this, nowMs) === undefined;
      const isHeldBack = isOwed && nowMs > this.arrivedAtMs;
      const endsAtMs = budget.endsAtMs + (isHeldBack ? heldBackMs(this) : 0);
      const untilMs = isOwed ? endsAtMs : budget.waitUntilMs;
      if (triedAtMs >= untilMs) {
        const slots = admission.isWaiting(this) ? admission.limit : undefined;
        throw errorFor(nodes, this, nowMs, slots);
      }
      // Nothing is known of its keys, and it has not tried: it does not wait any longer for one ahead of it that pauses.
      const isOverdue = isOwed && this.tries === 0 && nowMs >= budget.tryByMs;
      this.#state = 'waiting';
      const decision = this.#decide(nowMs, isOverdue);
      if (decision.kind === 'try') return this.#try(nowMs, endsAtMs);
      for (const record of this.records) record.yieldRow(this);
      this.isOwed = isOwed;
      const lookAgainMs = nowMs < budget.tryByMs ? budget.tryByMs : untilMs;
      const sleepMs = Math.min(decision.untilMs, lookAgainMs, untilMs) - nowMs;
      nodes.answers.set(this, Math.max(1, Math.ceil(sleepMs)), nowMs);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** One synchronous step up to the try, so that no two callers can try for one key. */
  #decide(nowMs: number, isOverdue: boolean): Decision {
    const { admission } = this.#shared;
    const blocked = this.records.filter((record) => this.#isBlocked(record, nowMs, isOverdue));
    const isInUse = (record: KeyRecord) => blocked.includes(record) || record.line.first;
    // A caller that arrives stands in the line of its first key that is in use here.
    if (this.line === undefined) this.records.find(isInUse)?.line.enter(this);
    const isHead = this.line === undefined || this.line.first === this;
    const blocking = blocked.find(({ line }) => line === this.line) ?? blocked[0];
    let wait: Decision | undefined;
    if (!isHead && !isOverdue) wait = UNTIL_WOKEN;
    else if (blocking !== undefined) {
      if (isHead) this.#moveTo(blocking, nowMs);
      wait = this.#waitFor(blocking, nowMs);
    } else if (!isOverdue && this.#pausedUntilMs > nowMs)
      wait = { kind: 'wait', untilMs: this.#pausedUntilMs };
    if (wait !== undefined) admission.withdraw(this);
    else if (admission.enter(this)) {
      this.line?.leave(this);
      return { kind: 'try' };
    }
    if (this.line === undefined) this.records[0]?.line.enter(this);
    return wait ?? UNTIL_WOKEN;
  }

  #isBlocked(record: KeyRecord, nowMs: number, isOverdue: boolean): boolean {
    if (record.lock !== undefined || record.trying !== undefined) return true;
    if (record.foreign !== undefined) {
      // Caller that is overdue is only behind a lease that is known to be over: one that runs is an answer.
      if (record.foreign.untilMs > nowMs && !isOverdue) return true;
      record.forgetHolder(nowMs);
    }
    const { reserved } = record;
    // Sets keep a key from later callers only.
    if (reserved === undefined || isOverdue) return false;
    return reserved.arrival < this.call.arrival && nowMs < reserved.untilMs;
  }

  /**
   * A head stands in the line of the key that blocks it from now on; the wake-up that brought it here goes on to the next in the
   * line that it leaves. The key of that line, which is free, is kept for it from later arrivals where it is the first in the new one.
   */
  #moveTo(blocking: KeyRecord, nowMs: number): void {
    const left = this.records.find(({ line }) => line === this.line);
    if (left === blocking) return;
    left?.line.leave(this);
    blocking.line.enter(this);
    if (left !== undefined && blocking.line.first === this && blocking.foreign === undefined)
      left.reserved ??= { arrival: this.call.arrival, untilMs: nowMs + GRACE_OF_SET_MS };
  }

  /** Waits for the end of what blocks it, which wakes it, or comes at a known time. */
  #waitFor(blocking: KeyRecord, nowMs: number): Decision {
    const { foreign, reserved, turn } = blocking;
    if (foreign === undefined)
      return reserved === undefined ? UNTIL_WOKEN : { kind: 'wait', untilMs: reserved.untilMs };
    if (this.#queues && turn?.place === undefined) this.#shared.keys.stand(blocking, nowMs);
    return { kind: 'wait', untilMs: foreign.untilMs };
  }

  #try(nowMs: number, endsAtMs: number): void {
    const { nodes, floors } = this.#shared;
    this.#state = 'trying';
    for (const record of this.records) {
      if (record.trying !== undefined)
        throw brokenInvariant('one try at a time for a key in one process');
      record.trying = this;
      record.reserved = undefined;
      record.turn?.place?.end();
    }
    this.tries += 1;
    this.attempt = new Attempt(nodes, this, this.call, endsAtMs);
    this.attempt.run(nowMs, floors.nextBallot(this.call.keys));
  }

  sawFloor(floor: number): void {
    this.#shared.floors.raise(this.call.keys, floor);
  }

  /** The word of single nodes on holders is no answer for others, but the best that is left for one who found out nothing. */
  sawVotes({ replies }: FailedAttempt['votes'], nowMs: number): void {
    for (const reply of replies)
      if (reply?.kind === 'held') {
        const record = this.records[reply.index]!;
        record.noteHolder(nowMs, reply.remainingMs, this.call.settings.nodeTimeoutMs);
      }
  }

  /** Stands in line before its votes are given back, so that these name the first of all. */
  refused(nowMs: number): void {
    if (!this.#queues) return;
    for (const record of this.records) this.#shared.keys.stand(record, nowMs);
  }

  /** Calls that do not wait take no turn of others, and get none. */
  get #queues(): boolean {
    return this.call.settings.waitMs > 0;
  }

  get isUrgent(): boolean {
    return this.call.isInside || this.#isCalled;
  }

  get #isCalled(): boolean {
    return this.records.some(({ turn }) => turn?.place?.hasTurn);
  }

  /** Ends its try: it has the lock, or looks again. */
  ended(outcome: AttemptOutcome): void {
    try {
      for (const record of this.records) record.trying = undefined;
      this.#shared.admission.exit();
      if (outcome.kind === 'granted') {
        const lock = new HeldLock(this.#shared, this.call, outcome);
        const resolve = this.#resolve!;
        this.#leave();
        return resolve(lock);
      }
      this.#learn(outcome);
      // Caller stands in front of those who came later, before they look.
      this.#backOff(outcome).line.enter(this);
      for (const { line } of this.records) {
        line.first?.wake();
        line.wakeOwed();
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
    const { keys, admission, nodes } = this.#shared;
    this.#state = 'done';
    if (this.position !== -1) nodes.answers.cancel(this);
    if (this.line !== undefined) {
      admission.withdraw(this);
      this.line.leave(this);
    }
    for (const record of this.records) {
      if (record.reserved?.arrival === this.call.arrival) {
        record.reserved = undefined;
        record.line.first?.wake();
      }
    }
    for (const record of this.records) keys.drop(record);
    this.call.stage = undefined;
  }
}
