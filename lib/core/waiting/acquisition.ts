import { brokenInvariant } from '../errors.ts';
import { Deadline } from '../deadlines.ts';
import { HeldLock } from '../holding/held-lock.ts';
import { Attempt, microtask } from '../voting/attempt.ts';
import type {
  AttemptListener,
  AttemptOutcome,
  FailedAttempt,
  Granted,
  LockCall,
} from '../voting/attempt.ts';
import type { Candidate, SharedByCallers } from './admission.ts';
import { nextTryMs } from './back-off.ts';
import { budgetOf } from './budget.ts';
import type { Call } from './call.ts';
import type { KeyLine, Waiter } from './key-line.ts';
import type { KeyRecord } from './keys.ts';
import { GRACE_OF_SET_MS } from './queue-place.ts';
import { Replacement } from './replacement.ts';
import { answerFor, errorFor, heldBackMs } from './verdict.ts';

/** What a caller does next: it tries, with an entry, or waits until it is woken, or until that time. */
type Decision = { readonly kind: 'try' } | Wait;
export type Wait = { readonly kind: 'wait'; readonly untilMs: number };

const UNTIL_WOKEN: Wait = { kind: 'wait', untilMs: Number.POSITIVE_INFINITY };

/**
 * A call on its way to its lock: it stands in line, tries, waits, and tries again, within its budget. It stands in the line of one
 * key at a time, the one that blocks it.
 *
 * A set that waits for `b` while `a` is free would never get both where others ask for `a` alone, again and again. So the set
 * keeps `a` from later arrivals for a moment, as the servers do between processes.
 */
export class Acquisition extends Deadline implements Waiter, Candidate, AttemptListener {
  readonly records: readonly KeyRecord[];
  readonly arrivedAtMs: number;
  line: KeyLine | undefined = undefined;
  tries = 0;
  attempt: Attempt | undefined = undefined;
  latest: FailedAttempt | undefined = undefined;
  /**
   * - `looking`: decides what comes next, in a moment at the latest.
   * - `waiting`: in line, until it is woken.
   * - `owed`: the same, and the end of every try wakes it.
   * - `trying`: asks the nodes.
   * - `done`: has its lock or its error.
   */
  #state: 'looking' | 'waiting' | 'owed' | 'trying' | 'done' = 'looking';
  protected readonly shared: SharedByCallers;
  readonly #replacement: Replacement | undefined;
  #promised: { resolve(lock: HeldLock): void; reject(error: unknown): void } | undefined;
  /** A failed try is followed by another one at this time at the earliest. */
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(
    shared: SharedByCallers,
    readonly call: Call,
  ) {
    super();
    call.stage = this;
    this.shared = shared;
    // A suspend of the system that is over must not take time from a caller that came after it.
    this.arrivedAtMs = shared.nodes.clock.checkedNowMs;
    this.records = this.use(shared, call);
    if (call.settings.replaces) this.#replacement = new Replacement(shared, call, this.records[0]!);
  }

  get isOwed(): boolean {
    return this.#state === 'owed';
  }

  get number(): number | undefined {
    return this.#replacement?.number;
  }

  /**
   * Resolves with the lock, which is made before any other caller looks at its keys. Rejects with a LockBusyError, a
   * QuorumUnavailableError, or what the call was cancelled with.
   */
  run(): Promise<HeldLock> {
    return new Promise((resolve, reject) => {
      this.#promised = { resolve, reject };
      this.#replacement?.arrived(this.arrivedAtMs);
      this.#look(this.arrivedAtMs);
    });
  }

  cancelled(): void {
    this.attempt?.cancel();
    this.wake();
  }

  wake(fromMs?: number): void {
    // A hint that a key may be free is of no use to a caller that only lacks an entry, unless its turn has come.
    const isHint = fromMs !== undefined && !this.#isCalled;
    if (isHint && this.shared.admission.isWaiting(this)) return;
    this.#pausedUntilMs = fromMs ?? this.#pausedUntilMs;
    if (this.#state !== 'waiting' && !this.isOwed) return;
    this.#state = 'looking';
    this.shared.nodes.answers.cancel(this);
    // The code that woke it may have more callers to wake.
    void microtask.then(() => this.#look(this.shared.nodes.clock.nowMs));
  }

  onDeadline(): void {
    this.wake();
  }

  /**
   * Looks again: tries, waits, or ends. A caller that has an answer, such as the holder of its key, waits until its `wait` is over.
   * One that has none is owed one: the others ahead of it may wait for their turn all the time, and it would be told of an outage
   * although nobody has asked a server for it. So it tries itself as soon as it has just the time for that.
   */
  #look(nowMs: number): void {
    const { nodes, admission } = this.shared;
    const { cancelled, settings } = this.call;
    try {
      if (cancelled !== undefined) throw cancelled.error;
      const { roundTripMs } = nodes.quorum;
      const budget = budgetOf(this.arrivedAtMs, settings, roundTripMs);
      // When a try would end that begins now. The first one for each slot is made however little time is left.
      const firstTries = this.isForOneOf ? this.records.length : 1;
      const triedAtMs = this.tries < firstTries ? nowMs : nowMs + roundTripMs;
      const isLate = triedAtMs >= Math.min(budget.waitUntilMs, budget.tryByMs);
      const isOwed = isLate && answerFor(nodes, this, nowMs) === undefined;
      const isHeldBack = isOwed && nowMs > this.arrivedAtMs;
      const endsAtMs = budget.endsAtMs + (isHeldBack ? heldBackMs(this) : 0);
      const untilMs = isOwed ? endsAtMs : budget.waitUntilMs;
      if (triedAtMs >= untilMs) {
        const entries = admission.isWaiting(this) ? admission.limit : undefined;
        throw errorFor(nodes, this, nowMs, entries);
      }
      const isOverdue = isOwed && this.tries === 0 && nowMs >= budget.tryByMs;
      this.#state = 'waiting';
      const decision = this.#decide(nowMs, isOverdue);
      if (decision.kind === 'try') return this.#try(nowMs, endsAtMs);
      for (const record of this.records) record.yieldRow(this);
      const isToldOfTries = isOwed || this.#replacement !== undefined;
      if (this.#state === 'waiting' && isToldOfTries) this.#state = 'owed';
      const lookAgainMs = nowMs < budget.tryByMs ? budget.tryByMs : untilMs;
      const sleepMs = Math.min(decision.untilMs, lookAgainMs, untilMs) - nowMs;
      nodes.answers.set(this, Math.max(1, Math.ceil(sleepMs)), nowMs);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Decides, and marks its place, in one synchronous step: no two callers can try for one key. */
  #decide(nowMs: number, isOverdue: boolean): Decision {
    const { admission } = this.shared;
    let blocking: KeyRecord | undefined;
    let inUse: KeyRecord | undefined;
    for (const record of this.records) {
      const isBlocked = this.isBlocked(record, nowMs, isOverdue);
      if (isBlocked && (blocking === undefined || record === this.#standsAt)) blocking = record;
      if (isBlocked || record.line?.first !== undefined) inUse ??= record;
    }
    // A caller that arrives stands in the line of its first key that is in use here.
    if (this.line === undefined) inUse?.enter(this);
    const isHead = this.line === undefined || this.line.first === this;
    let wait: Wait | undefined;
    blocking = this.blockedBy(blocking, nowMs, isOverdue);
    if (!isHead && !isOverdue) wait = UNTIL_WOKEN;
    else if (blocking !== undefined) {
      this.#moveTo(blocking, nowMs);
      wait = this.waitFor(blocking, nowMs);
    } else if (!isOverdue && this.#pausedUntilMs > nowMs)
      wait = { kind: 'wait', untilMs: this.#pausedUntilMs };
    if (wait !== undefined) admission.withdraw(this);
    else if (admission.enter(this)) {
      this.line?.leave(this);
      return { kind: 'try' };
    }
    if (this.line === undefined) this.records[0]?.enter(this);
    return wait ?? UNTIL_WOKEN;
  }

  /** The records of its keys, in use until it has ended. */
  protected use({ keys }: SharedByCallers, call: Call): readonly KeyRecord[] {
    return keys.use(call.keys);
  }

  /** Whether one of its keys is enough for it; otherwise it needs them all. */
  get isForOneOf(): boolean {
    return false;
  }

  /** What it asks for in one try, and what it gets. */
  protected get wanted(): LockCall {
    return this.call;
  }

  /** The records of what it asks for in one try. */
  protected get asked(): readonly KeyRecord[] {
    return this.records;
  }

  /** The key for which it waits where `blocked` is one that it can't try for; undefined where it can try all the same. */
  protected blockedBy(
    blocked: KeyRecord | undefined,
    _nowMs: number,
    _isOverdue: boolean,
  ): KeyRecord | undefined {
    return blocked;
  }

  protected isBlocked(record: KeyRecord, nowMs: number, isOverdue: boolean): boolean {
    if (record.lock !== undefined || record.trying !== undefined) return true;
    // A lease that runs is an answer. So what holds up a caller that is overdue, and has none, can only be over.
    if (isOverdue) return false;
    if (this.#heldUntilMs(record) > nowMs) return true;
    const { reserved } = record;
    // A set keeps a key from later callers only.
    if (reserved === undefined) return false;
    return reserved.arrival < this.call.arrival && nowMs < reserved.untilMs;
  }

  /**
   * The head of a line moves to the line of the key that blocks it, and so does any caller that is overdue: the end of a try wakes that
   * line alone. A head hands its wake-up on to the next in its old line. Where it is first in the new one, the free key is kept for it
   * from later arrivals.
   */
  #moveTo(blocking: KeyRecord, nowMs: number): void {
    const left = this.#standsAt;
    if (left !== undefined && left.line === blocking.line) return;
    this.line?.leave(this);
    blocking.enter(this);
    const isHead = blocking.line?.first === this;
    if (left !== undefined && isHead && blocking.foreign === undefined)
      left.reserved ??= { arrival: this.call.arrival, untilMs: nowMs + GRACE_OF_SET_MS };
  }

  /** The key in whose line it stands. */
  get #standsAt(): KeyRecord | undefined {
    return this.line && this.records.find(({ line }) => line === this.line);
  }

  /** What blocks it wakes it when it ends, or ends at a known time. */
  protected waitFor(blocking: KeyRecord, nowMs: number): Wait {
    const { reserved, turn, lock } = blocking;
    if (lock !== undefined && this.#replacement !== undefined)
      return { kind: 'wait', untilMs: this.#replacement.replace(lock, nowMs) };
    const heldUntilMs = this.#heldUntilMs(blocking);
    if (heldUntilMs <= nowMs)
      return reserved === undefined ? UNTIL_WOKEN : { kind: 'wait', untilMs: reserved.untilMs };
    // A try ends the round of the place, also that of a call with `wait: 0`, which does not stand in line afterwards.
    if (this.#queues && turn?.place?.isSet !== true) this.shared.keys.stand(blocking, nowMs);
    return { kind: 'wait', untilMs: heldUntilMs };
  }

  #heldUntilMs({ foreign }: KeyRecord): number {
    const lookAtMs = this.#replacement?.lookAtMs ?? Number.POSITIVE_INFINITY;
    return Math.min(foreign?.untilMs ?? Number.NEGATIVE_INFINITY, lookAtMs);
  }

  #try(nowMs: number, endsAtMs: number): void {
    const { nodes, floors } = this.shared;
    this.#state = 'trying';
    const { asked, wanted } = this;
    for (const record of asked) {
      if (record.trying !== undefined)
        throw brokenInvariant('one try at a time for a key in one process');
      record.trying = this;
      record.reserved = undefined;
      // Not before: until then it says that the first in line waits for another process, which has to be called.
      record.forgetHolder(nowMs);
      record.turn?.place?.end();
    }
    this.tries += 1;
    // Nodes tell the process of a holder at once that it is replaced.
    if (this.#replacement !== undefined) for (const session of nodes.sessions) session.listen();
    this.attempt = new Attempt(nodes, this, wanted, endsAtMs);
    this.attempt.run(nowMs, this.#replacement?.draw() ?? floors.nextBallot(wanted.keys));
  }

  sawFloor(floor: number): void {
    this.shared.floors.raise(this.wanted.keys, floor);
  }

  /** The word of single nodes is no answer, but the best that is left for a caller that found out nothing else. */
  sawVotes({ replies }: FailedAttempt['votes'], nowMs: number): void {
    for (const reply of replies)
      if (reply?.kind === 'held') {
        const record = this.asked[reply.index]!;
        record.noteHolder(nowMs, reply.remainingMs, this.call.settings.nodeTimeoutMs);
      }
  }

  /** Stands in the line of the nodes before its votes are given back: their release names the first in that line. */
  refused(nowMs: number): void {
    if (!this.#queues) return;
    // Its place is that of its number.
    this.#replacement?.sighted(this.attempt!.round!.votes);
    for (const record of this.asked) this.shared.keys.stand(record, nowMs);
  }

  /** A call that does not wait takes no turn of others, and gets none. */
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
      for (const record of this.asked) record.trying = undefined;
      this.shared.admission.exit();
      if (outcome.kind === 'granted') {
        const lock = this.granted(outcome);
        this.#leave();
        return this.#promised!.resolve(lock);
      }
      this.#learn(outcome);
      this.#replacement?.tried(outcome, this.attempt!.round!.vote.ballot);
      // It is back in line, in front of those who came later, before they look.
      this.#backOff(outcome).enter(this);
      for (const { line } of this.records) {
        line?.first?.wake();
        line?.wakeOwed();
      }
    } catch (error) {
      return this.#fail(error);
    }
    this.#look(this.shared.nodes.clock.nowMs);
  }

  protected granted(outcome: Granted): HeldLock {
    return new HeldLock(this.shared, this.wanted, outcome);
  }

  /**
   * Learns what a try means for all callers that wait for these keys. Three callers that arrive together may get one vote each of
   * three nodes: none of them has the lock, and all try again. So a name is that of a holder only when a quorum named it, or all
   * nodes did twice in a row: every try has a name of its own.
   */
  #learn(outcome: FailedAttempt): void {
    const { finding, votes, endedAtMs } = outcome;
    if (finding === 'outage') for (const record of this.asked) record.outage = outcome;
    // A holder that a node named while no quorum could be asked is no answer.
    const isCutShort = finding === 'nothing' && votes.yes < votes.quorum;
    const hadQuorum = this.shared.nodes.quorum.lastAnswerAtMs > this.arrivedAtMs;
    if (finding === 'contention' || (isCutShort && hadQuorum)) this.sawVotes(votes, endedAtMs);
    if (finding === 'contention') {
      const { soleHolder, holders } = votes;
      if (soleHolder !== undefined && soleHolder === this.latest?.votes.soleHolder) {
        const record = this.asked[holders[0]!.index]!;
        record.busyUntilMs = Math.max(record.busyUntilMs, endedAtMs);
      }
    }
    if (finding !== 'nothing') this.latest = outcome;
    this.latest ??= outcome;
  }

  /** Returns the key that blocks it, as far as nodes said: a caller for another of its keys does not wait behind it. */
  #backOff(outcome: FailedAttempt): KeyRecord {
    const { votes, endedAtMs, causes } = outcome;
    const { namedHolder } = votes;
    const record = this.asked[namedHolder?.index ?? -1];
    const untilMs = nextTryMs(this.shared.nodes, this.call.settings, outcome, this.tries);
    if (record === undefined || namedHolder === undefined) {
      this.#pausedUntilMs = untilMs;
      return this.asked[votes.holders[0]?.index ?? 0]!;
    }
    const { freeInMs } = votes;
    const freeAtMs = freeInMs === undefined ? undefined : endedAtMs + freeInMs;
    const process = this.shared.processes.meet(namedHolder, votes.replies, this.wanted.keys);
    record.foreign = { untilMs, freeAtMs, causes, process };
    record.busyUntilMs = freeAtMs ?? untilMs;
    return record;
  }

  #fail(error: unknown): void {
    this.#leave();
    this.#promised!.reject(error);
  }

  #leave(): void {
    const { keys, admission, nodes } = this.shared;
    this.#state = 'done';
    nodes.answers.cancel(this);
    admission.withdraw(this);
    this.line?.leave(this);
    for (const record of this.records) {
      if (record.reserved?.arrival === this.call.arrival) {
        record.reserved = undefined;
        record.line?.first?.wake();
      }
    }
    for (const record of this.records) keys.drop(record);
    this.call.stage = undefined;
  }
}
