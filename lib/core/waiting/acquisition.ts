import { brokenInvariant } from '../invariant.ts';
import { HeldLock } from '../holding/held-lock.ts';
import type { LockRoom } from '../holding/held-lock.ts';
import type { KeyRecord, Waiter } from '../holding/key-table.ts';
import { Deadline } from '../nodes/deadlines.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import { Attempt, NOW } from '../voting/attempt.ts';
import type { AttemptListener, AttemptOutcome, FailedAttempt } from '../voting/attempt.ts';
import type { Admission, Candidate } from './admission.ts';
import { GRACE_OF_SET_MS, MAX_JITTER_MS } from '../holding/queue-place.ts';
import { nextTryMs } from './backoff.ts';
import { Verdict } from './verdict.ts';

/** What a first try is left at least: two ballots, and as much again. */
const TRY_ROUND_TRIPS = 4;

/** What all callers and locks of one service share. */
export interface WaitingRoom extends LockRoom {
  readonly admission: Admission;
}

/**
 * One acquire on its way: in line, try, wait, try again, within its budget.
 * It stands in the line of one key at a time, the one that blocks it. A set for which a key has become free while another one
 * is in use keeps the free one for a moment from later arrivals, as nodes do between processes.
 */
export class Acquisition extends Deadline implements Waiter, Candidate, AttemptListener {
  readonly keys: readonly string[];
  readonly records: readonly KeyRecord[];
  readonly settings: ResolvedAcquire;
  readonly arrivedAtMs: number;
  readonly ticket: number;
  readonly enclosing: readonly HeldLock[] | undefined;
  isImpatient: boolean;
  place: KeyRecord | undefined = undefined;
  previousInLine: Waiter | undefined = undefined;
  nextInLine: Waiter | undefined = undefined;
  /** Made so far; and where the service keeps it. */
  tries = 0;
  slot = -1;
  /** What may cancel it. */
  signal: AbortSignal | undefined = undefined;
  attempt: Attempt | undefined = undefined;
  /** Ends what its caller waits for after the grant. */
  onCancel: (() => void) | undefined = undefined;
  /** Why it was cancelled, if it was: after the grant nothing may be held all the same. */
  cancelled: { readonly error: unknown } | undefined = undefined;
  readonly #room: WaitingRoom;
  readonly #budgetMs: number;
  /** Without a try until then it needs the rest of its time for one. */
  readonly #tryAtLatestMs: number;
  #resolve: ((lock: HeldLock) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  /** Waits to be woken. */
  #isAsleep = false;
  #hasPolled = false;
  /** No try of its own before this: back-off, quarantine, or the jitter after a hint. */
  #pausedUntilMs: number | undefined;
  /** When its last try ended. Undefined before: a time is an object of its own, which many callers never need. */
  #triedAtMs: number | undefined;
  /** Tries in a row in which no holder was named: one that lost to holders before is not slower when votes are split. */
  #splits = 0;
  /** Hints of all its keys that it has seen. */
  #hintsSeen = 0;
  /** Stands in line for a slot, or was offered one. */
  #isCandidate = false;
  #verdict: Verdict | undefined;

  constructor(
    room: WaitingRoom,
    keys: readonly string[],
    settings: ResolvedAcquire,
    ticket: number,
    enclosing: readonly HeldLock[] | undefined,
  ) {
    super();
    this.keys = keys;
    this.ticket = ticket;
    this.enclosing = enclosing;
    this.isImpatient = settings.waitMs < settings.nodeTimeoutMs;
    this.#room = room;
    this.settings = settings;
    // A suspend that is over must not count against a caller that came after it.
    this.arrivedAtMs = room.set.checkedNowMs;
    this.records = room.table.useAll(keys);
    this.#budgetMs = Math.max(settings.waitMs, settings.nodeTimeoutMs);
    const neededMs = Math.max(this.#budgetMs / 2, TRY_ROUND_TRIPS * room.set.roundTripMs);
    this.#tryAtLatestMs = this.arrivedAtMs + this.#budgetMs - neededMs;
    if (keys.length === 1) return;
    for (const record of this.records) (record.sets ??= new Set()).add(this);
  }

  get waitedMs(): number {
    return this.#room.set.nowMs - this.arrivedAtMs;
  }

  /**
   * Resolves with its lock, which is made before any other caller looks at its keys. Rejects with LockBusyError,
   * QuorumUnavailableError, or what `cancel` was given.
   */
  run(): Promise<HeldLock> {
    // No async function: thousands may wait, and each would keep its registers.
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#goOn(this.arrivedAtMs);
    });
  }

  /** Looks again: tries, waits, or ends. */
  #goOn(nowMs: number): void {
    try {
      if (this.cancelled !== undefined) throw this.cancelled.error;
      const deadlineMs = this.#deadlineMs(nowMs);
      // No try without the time for an answer, except the first.
      const neededMs = this.tries === 0 ? 0 : this.#room.set.roundTripMs;
      const slots = this.#isCandidate ? this.#room.admission.limit : undefined;
      if (nowMs + neededMs >= deadlineMs) {
        if (this.#hasPolled || !this.#findings.mayBeAnswered(nowMs, deadlineMs))
          throw this.#findings.error(nowMs, slots);
        // Once, so that a process which is always late still ends its waits.
        this.#hasPolled = true;
        return this.#room.set.environment.afterPoll(() => this.#goOn(this.#room.set.nowMs));
      }
      const waitUntilMs = this.#look(nowMs);
      if (waitUntilMs === undefined) this.#try(nowMs, deadlineMs);
      else this.#sleep(Math.min(waitUntilMs, deadlineMs), nowMs);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Its try ended: it has the lock, or looks again. */
  ended(outcome: AttemptOutcome): void {
    try {
      for (const record of this.records) record.trying = undefined;
      this.#room.admission.exit();
      if (outcome.kind === 'granted') {
        const lock = new HeldLock(this.#room, this, outcome);
        const resolve = this.#resolve!;
        this.#leave();
        return resolve(lock);
      }
      this.#failed(outcome);
    } catch (error) {
      return this.#fail(error);
    }
    this.#goOn(this.#room.set.nowMs);
  }

  #fail(error: unknown): void {
    const reject = this.#reject!;
    this.#leave();
    reject(error);
  }

  /** Ends it: `run` rejects with `error` and nothing is held. */
  cancel(error: unknown): void {
    this.cancelled ??= { error };
    this.attempt?.cancel();
    this.onCancel?.();
    this.wake();
  }

  wake(): void {
    if (!this.#isAsleep) return;
    this.#isAsleep = false;
    this.#room.set.budgets.cancel(this);
    // What wakes several callers finishes first.
    void NOW.then(() => this.#goOn(this.#room.set.nowMs));
  }

  onDeadline(): void {
    this.wake();
  }

  /** Stands in line before its votes are given back, so that these name the first of all. */
  refused(nowMs: number): void {
    if (!this.#queues) return;
    for (const record of this.records) this.#room.table.stand(record, nowMs);
  }

  /** Calls that do not wait take no turn of others, and get none. */
  get #queues(): boolean {
    return this.settings.waitMs > 0;
  }

  get isCalled(): boolean {
    return this.records.some(({ queued }) => queued?.hasTurn === true);
  }

  sawFloor(floor: number): void {
    this.#room.table.sawFloor(this.records, floor);
  }

  /**
   * Takes a slot and marks the keys for a try, and returns undefined; or returns until when it waits to be woken. One
   * synchronous step, so that no two callers can try for one key.
   */
  #look(nowMs: number): number | undefined {
    let blocking: KeyRecord | undefined;
    let inUse: KeyRecord | undefined;
    for (const record of this.records) {
      if (this.#isBlocking(record, nowMs) && (!blocking || record === this.place))
        blocking = record;
      if (blocking !== undefined || record.first !== undefined) inUse ??= record;
    }
    // On arrival in the line of its first key that is in use here.
    if (this.place === undefined) inUse?.enter(this);
    const isHead = this.place === undefined || this.place.first === this;
    if (blocking?.isHeld(nowMs) === true) this.#findings.sawHolder(nowMs);
    const laterMs = nowMs < this.#tryAtLatestMs ? this.#tryAtLatestMs : Number.POSITIVE_INFINITY;
    if (!isHead && !this.#isOverdue(nowMs)) return this.#standBy(laterMs);
    if (blocking !== undefined) {
      if (isHead && blocking !== this.place) this.#move(blocking, nowMs);
      if (nowMs >= this.#tryAtLatestMs) this.place?.listen(this);
      const { untilMs = laterMs } = blocking.reserved ?? {};
      if (blocking.foreign === undefined) return this.#standBy(Math.min(untilMs, laterMs));
      if (blocking.queued === undefined && this.#queues) this.#room.table.stand(blocking, nowMs);
      return this.#standBy(Math.min(blocking.foreign.untilMs, laterMs));
    }
    const pausedUntilMs = this.#pause(nowMs);
    if (pausedUntilMs > nowMs) {
      if (this.place === undefined) this.records[0]?.enter(this);
      return this.#standBy(pausedUntilMs);
    }
    this.#isCandidate = !this.#room.admission.enter(this);
    if (this.#isCandidate) {
      if (this.place === undefined) this.records[0]?.enter(this);
      return Number.POSITIVE_INFINITY;
    }
    for (const record of this.records) {
      if (record.trying !== undefined)
        throw brokenInvariant('one try at a time for a key in one process');
      record.trying = this;
      record.reserved = undefined;
    }
    this.place?.leave(this);
    return undefined;
  }

  /** Stands in the line of another key from now on. The wake-up that brought it here goes on to the next in the line that it leaves. */
  #move(blocking: KeyRecord, nowMs: number): void {
    const { place, ticket } = this;
    place?.leave(this);
    blocking.enter(this);
    if (place !== undefined && blocking.first === this && blocking.foreign === undefined)
      place.reserved ??= { ticket, untilMs: nowMs + GRACE_OF_SET_MS };
  }

  /** It does not wait for a slot, but for something else. */
  #standBy(untilMs: number): number {
    if (this.#isCandidate) this.#room.admission.withdraw(this);
    this.#isCandidate = false;
    return untilMs;
  }

  #isBlocking(record: KeyRecord, nowMs: number): boolean {
    if (record.lock !== undefined || record.trying !== undefined) return true;
    if (record.foreign !== undefined) {
      // Only behind a lease that is known to be over: one that runs is an answer.
      if (record.foreign.untilMs > nowMs && !this.#isOverdue(nowMs)) return true;
      record.foreign = undefined;
    }
    if (record.reserved === undefined) return false;
    return record.isReserved(this.ticket, nowMs) && !this.#isOverdue(nowMs);
  }

  /** Returns until when the head of a free line lets time pass: its own back-off, or jitter after a hint. */
  #pause(nowMs: number): number {
    let hints = 0;
    let hintAtMs = 0;
    for (const record of this.records) {
      hints += record.hints;
      if (record.hintAtMs !== undefined) hintAtMs = Math.max(hintAtMs, record.hintAtMs);
    }
    // A fake clock may have turned back since.
    if (hints !== this.#hintsSeen) this.#pausedUntilMs = Math.min(hintAtMs, nowMs + MAX_JITTER_MS);
    this.#hintsSeen = hints;
    const untilMs = this.#pausedUntilMs ?? 0;
    const hasLastTry = (this.#triedAtMs ?? 0) >= this.#tryAtLatestMs;
    return hasLastTry ? untilMs : Math.min(untilMs, this.#tryAtLatestMs);
  }

  /** It has not tried, and nothing is known of its keys: it does not wait any longer for one ahead of it that pauses. */
  #isOverdue(nowMs: number): boolean {
    return this.tries === 0 && nowMs >= this.#tryAtLatestMs && !this.#findings.answer(nowMs);
  }

  #try(nowMs: number, deadlineMs: number): void {
    const { set, table } = this.#room;
    for (const { queued } of this.records) queued?.end();
    this.tries += 1;
    const names = new NodeNames(set.options.keyPrefix, this.keys, set.marker);
    this.attempt = new Attempt(set, this, names, this.settings, deadlineMs);
    this.attempt.run(nowMs, table.nextBallot(this.records));
  }

  /** What the outcome means for all callers that wait for these keys; then all their lines look again. */
  #failed(outcome: FailedAttempt): void {
    const { votes, endedAtMs, isCancelled, isTooSlow } = outcome;
    if (!isCancelled) {
      this.#findings.failed(outcome);
      if (!isTooSlow && votes.isContention) this.sawVotes(votes, endedAtMs);
      const blockedOn = this.#planNextTry(outcome);
      // It stands in front of those who came later, before they look.
      (blockedOn ?? this.records[0])?.enter(this);
    }
    for (const record of this.records) record.tryFailed();
  }

  /** What single nodes said of holders is no answer for others, but the best that is left for one who found out nothing. */
  sawVotes({ replies }: FailedAttempt['votes'], nowMs: number): void {
    for (const reply of replies)
      if (reply?.kind === 'held') this.records[reply.index]!.wasNamed(nowMs, reply.remainingMs);
  }

  /** Returns the record it is blocked on, as far as nodes said: a caller for another of its keys does not wait behind it. */
  #planNextTry(outcome: FailedAttempt): KeyRecord | undefined {
    const { set } = this.#room;
    const { votes, endedAtMs, causes } = outcome;
    const { freeInMs } = votes;
    this.#triedAtMs = endedAtMs;
    const { index } = votes.namedHolder;
    const record = this.records[index];
    this.#splits = record === undefined ? this.#splits + 1 : 0;
    const failures = this.#splits || this.tries;
    const { pausedUntilMs, untilFreeMs } = nextTryMs(set, this.settings, outcome, failures);
    if (record !== undefined) {
      const freeAtMs = freeInMs === undefined ? undefined : endedAtMs + freeInMs;
      record.foreign = { untilMs: untilFreeMs, freeAtMs, causes };
      record.busyAtMs = endedAtMs;
    } else {
      this.#pausedUntilMs = votes.isQuarantined ? untilFreeMs : pausedUntilMs;
    }
    return record ?? this.records[votes.mostNamedIndex];
  }

  /** The only wait there is: until it is woken, cancelled, or the time has come. */
  #sleep(untilMs: number, nowMs: number): void {
    const { budgets } = this.#room.set;
    this.#isAsleep = true;
    // Callers with the same budget share a timer.
    if (untilMs === this.arrivedAtMs + this.#budgetMs)
      budgets.set(this, this.#budgetMs, this.arrivedAtMs, nowMs);
    else budgets.set(this, Math.max(1, Math.ceil(untilMs - nowMs)), nowMs);
  }

  /** It is owed one conclusive answer, for which it waits a node timeout at least. */
  #deadlineMs(nowMs: number): number {
    const { waitMs, nodeTimeoutMs } = this.settings;
    const endMs = this.arrivedAtMs + waitMs;
    if (waitMs >= nodeTimeoutMs && nowMs < endMs) return endMs;
    const isOwed = this.#findings.answer(nowMs) === undefined;
    if (waitMs < nodeTimeoutMs && isOwed !== this.isImpatient) {
      // With an answer it needs no wake-up before its time is over.
      if (this.place !== undefined) this.place.impatient += isOwed ? 1 : -1;
      this.isImpatient = isOwed;
    }
    return isOwed ? this.arrivedAtMs + this.#budgetMs + this.#findings.heldBackMs : endMs;
  }

  /** What it has found out; made when there is something to find. */
  get #findings(): Verdict {
    this.#verdict ??= new Verdict(this.#room.set, this);
    return this.#verdict;
  }

  /** Nothing of it stays behind, whatever it ended with. */
  #leave(): void {
    const { table, admission, set } = this.#room;
    this.#isAsleep = false;
    if (this.line !== undefined) set.budgets.cancel(this);
    if (this.#isCandidate) admission.withdraw(this);
    this.place?.leave(this);
    for (const record of this.records) {
      record.sets?.delete(this);
      if (record.reserved?.ticket !== this.ticket) continue;
      record.reserved = undefined;
      record.wake();
    }
    for (const record of this.records) table.drop(record);
    // One that has waited is old: whatever it refers to would be kept until a full collection.
    this.attempt = this.#resolve = this.#reject = undefined;
  }
}
