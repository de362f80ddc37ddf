import type { NodeCause } from '../errors.ts';
import { brokenInvariant, isThorough } from '../invariant.ts';
import { Alarm } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { Attempt, FailedAttempt } from '../voting/attempt.ts';
import type { HeldLock } from './held-lock.ts';
import { Turns } from './turns.ts';

/** A subscription outlives its last waiter by this, because the next one usually comes at once. */
const LINGER_MS = 1_000;
/** Records kept for nothing but what they remember of floors and of grants in a row. */
const MAX_REMEMBERED = 4_096;
/** Own releases whose hints may still be on their way. */
const MAX_OWN_HOLDERS = 8;

/** A caller that waits for keys. It stands in one line at a time. */
export interface Waiter {
  /** Order of arrival in this process; of all keys together, so that overlapping sets stand in one order everywhere. */
  readonly ticket: number;
  /** Has no conclusive answer yet, which it is owed within a node timeout. */
  isImpatient: boolean;
  /** Locks that are held here, in whose sections it was called. */
  readonly enclosing: readonly HeldLock[] | undefined;
  /** Its latest try: whether a node has named another holder so far. */
  readonly attempt: Pick<Attempt, 'namesHolder' | 'openCauses' | 'heldBackMs'> | undefined;
  place: KeyRecord | undefined;
  previousInLine: Waiter | undefined;
  nextInLine: Waiter | undefined;
  /** Something changed: it looks again whether it can try. */
  wake(): void;
  /** A later arrival was granted one of its keys. Called for sets only. */
  passed(): void;
}

/** Another process holds the key, as a quorum of nodes said. */
export interface ForeignHolder {
  /** When it is worth asking again, without a hint. */
  readonly untilMs: number;
  /** When its lease ends unless it is extended; undefined without TTL. */
  readonly freeAtMs: number | undefined;
  /** What each node said. */
  readonly causes: () => NodeCause[];
}

/** Everything this process knows of one key. */
export class KeyRecord {
  readonly key: string;
  /** Held here: also while it is only kept for `minHold`. */
  lock: HeldLock | undefined = undefined;
  /** Whose try for a lock with this key is under way. One at a time in this process. */
  trying: Waiter | undefined = undefined;
  foreign: ForeignHolder | undefined = undefined;
  /** When it was last granted here, or a quorum named another holder. */
  busyAtMs = Number.NEGATIVE_INFINITY;
  /** How long its latest lock here was held. Undefined before: a time is an object of its own, and most keys are locked once. */
  heldMs: number | undefined = undefined;
  /** When a node last named another holder, and when its lease was to end. */
  named: { readonly atMs: number; readonly freeAtMs: number } | undefined = undefined;
  /** The latest outage that a try for this key found; Verdict decides whether it still counts. */
  outage: FailedAttempt | undefined = undefined;
  /** Sets that wait for this key, wherever they stand, and those of them that claim it. */
  sets: Set<Waiter> | undefined = undefined;
  claims: Waiter[] | undefined = undefined;
  first: Waiter | undefined = undefined;
  last: Waiter | undefined = undefined;
  /** How many in line are impatient; 0 saves a walk. */
  impatient = 0;
  /** Releases that were published elsewhere, or may have been missed. */
  hints = 0;
  hintAtMs: number | undefined = undefined;
  /** Turns of other processes; undefined while none was found. */
  turns: Turns | undefined = undefined;
  /** How often it was granted in this process. */
  turnover = 0;
  /** Highest floor that nodes reported, while it is ahead of our clock; microseconds. */
  floor = 0;
  /** Waiters and locks that refer to it. */
  uses = 0;
  subscribers = 0;
  isSubscribed = false;
  /** Runs while its subscription outlives the last waiter. */
  linger: Alarm | undefined = undefined;
  /** Identities of locks and attempts of this process that were published: their hints say nothing new. */
  #own: string[] | undefined;

  constructor(key: string) {
    this.key = key;
  }

  /** In order of arrival: mostly behind all others, and in front for one that moves or comes back from its try. */
  enter(waiter: Waiter): void {
    let next: Waiter | undefined;
    if (this.last !== undefined && this.last.ticket > waiter.ticket) {
      next = this.first;
      while (next !== undefined && next.ticket < waiter.ticket) next = next.nextInLine;
    }
    const previous = next === undefined ? this.last : next.previousInLine;
    waiter.place = this;
    waiter.previousInLine = previous;
    waiter.nextInLine = next;
    if (previous === undefined) this.first = waiter;
    else previous.nextInLine = waiter;
    if (next === undefined) this.last = waiter;
    else next.previousInLine = waiter;
    if (waiter.isImpatient) this.impatient += 1;
  }

  /** Held here, or elsewhere by a lease that has not ended, as far as this process knows. */
  isHeld(nowMs: number): boolean {
    return this.lock !== undefined || (this.foreign !== undefined && !this.hasLapsed(nowMs));
  }

  /** No one asked since the lease of its holder elsewhere ended. */
  hasLapsed(nowMs: number): boolean {
    return this.foreign !== undefined && nowMs >= (this.foreign.freeAtMs ?? this.foreign.untilMs);
  }

  /** A node named another holder, whose lease runs for so long; -1 without TTL. The longest lease of one moment counts. */
  wasNamed(atMs: number, remainingMs: number): void {
    const freeAtMs = remainingMs < 0 ? Number.POSITIVE_INFINITY : atMs + remainingMs;
    if (this.named?.atMs !== atMs || freeAtMs > this.named.freeAtMs)
      this.named = { atMs, freeAtMs };
  }

  /** A head that leaves hands its wake-up on. */
  leave(waiter: Waiter): void {
    const { previousInLine: previous, nextInLine: next } = waiter;
    if (previous === undefined) this.first = next;
    else previous.nextInLine = next;
    if (next === undefined) this.last = previous;
    else next.previousInLine = previous;
    waiter.place = waiter.previousInLine = waiter.nextInLine = undefined;
    if (waiter.isImpatient) this.impatient -= 1;
    if (this.first === undefined) {
      // Another line may have a caller that listens for the end of the holder.
      if (this.subscribers === 0) this.foreign = undefined;
    } else if (previous === undefined) this.wake();
  }

  /** Whether it may try before all others in line: the head, and one that no claim binds behind those that one binds. */
  isNext(waiter: Waiter): boolean {
    let next = this.first;
    if (isUnbound(waiter) && this.claims !== undefined) {
      const oldest = Math.min(...this.claims.map(({ ticket }) => ticket));
      while (next !== undefined && next.ticket >= oldest && !isUnbound(next))
        next = next.nextInLine;
    }
    return next === waiter;
  }

  /** The key may be free: callers that claim it look first, then the head of the line and those that no claim binds. */
  wake(): void {
    for (const claimant of this.claims ?? []) claimant.wake();
    this.first?.wake();
    if (this.claims === undefined || this.claims.length === 0) return;
    for (let waiter = this.first; waiter !== undefined; waiter = waiter.nextInLine)
      if (isUnbound(waiter)) waiter.wake();
  }

  /** There is a conclusive answer: callers that wait for no more than that are notified. */
  wakeImpatient(): void {
    for (let waiter = this.first; waiter !== undefined; waiter = waiter.nextInLine)
      if (waiter.isImpatient) waiter.wake();
  }

  /** From now on the end of every try wakes it: one who comes back from a try stands in front again. */
  listen(waiter: Waiter): void {
    if (waiter.isImpatient) return;
    waiter.isImpatient = true;
    this.impatient += 1;
  }

  /** The line goes on, and callers that wait for no more than an answer may need a try of their own. */
  tryFailed(): void {
    this.wake();
    if (this.impatient > 0) this.wakeImpatient();
  }

  published(holder: string): void {
    this.#own ??= [];
    this.#own.push(holder);
    if (this.#own.length > MAX_OWN_HOLDERS) this.#own.shift();
  }

  isOwn(holder: string): boolean {
    return this.#own?.includes(holder) === true;
  }
}

/** No claim binds a caller inside a section that others here wait for: they would wait for each other. */
export function isUnbound({ enclosing }: Waiter): boolean {
  if (enclosing === undefined) return false;
  const isWanted = ({ first, sets }: KeyRecord) => first !== undefined || !!sets?.size;
  return enclosing.some((lock) =>
    lock.records.some((record) => record.lock === lock && isWanted(record)),
  );
}

function isUnused({ lock, trying, first, sets, claims, subscribers }: KeyRecord): boolean {
  const isFree = lock === undefined && trying === undefined && first === undefined;
  return isFree && !sets?.size && !claims?.length && subscribers === 0;
}

/** One record per key that this process holds, tries for or waits for. */
export class KeyTable {
  readonly #set: NodeSet;
  /**
   * No Map: where entries come and go V8 makes a new table all the time, and an outgrown one that has become old keeps all later
   * ones, with all that was in them, until the next full collection. That was a third of the time of a busy client.
   */
  readonly #records = Object.create(null) as Record<string, KeyRecord>;
  /** Records that are only remembered, oldest first. */
  readonly #remembered = new Set<KeyRecord>();

  constructor(set: NodeSet) {
    this.#set = set;
  }

  /** How many records there are. */
  size = 0;

  /** The record of `key`, in use until it is dropped again. */
  use(key: string): KeyRecord {
    let record = this.#records[key];
    if (record === undefined) {
      record = this.#records[key] = new KeyRecord(key);
      this.size += 1;
    }
    record.uses += 1;
    return record;
  }

  useAll(keys: readonly string[]): readonly KeyRecord[] {
    // One key for nearly every lock: an array that grows takes several times the memory.
    const records = [this.use(keys[0]!)];
    for (let index = 1; index < keys.length; index += 1) records.push(this.use(keys[index]!));
    for (const { lock } of records) if (lock?.state === 'kept') lock.noticeEnd();
    return records;
  }

  drop(record: KeyRecord): void {
    record.uses -= 1;
    if (record.first === undefined && record.subscribers === 0) record.foreign = undefined;
    this.#forget(record);
  }

  /** Every lock once. */
  locks(): Set<HeldLock> {
    const locks = new Set<HeldLock>();
    for (const { lock } of Object.values(this.#records)) if (lock !== undefined) locks.add(lock);
    return locks;
  }

  /** A lock was granted: it counts as a pass for sets that wait for one of its keys and came earlier. */
  granted(lock: HeldLock, records: readonly KeyRecord[], ticket: number): void {
    for (const record of records) {
      if (record.lock !== undefined) throw brokenInvariant('a key has one lock in one process');
      record.lock = lock;
      record.trying = undefined;
      record.foreign = undefined;
      record.busyAtMs = this.#set.nowMs;
      record.turns?.end(record.busyAtMs);
      record.turnover += 1;
      record.uses += 1;
    }
    for (const record of records) {
      for (const set of record.sets ?? []) if (set.ticket < ticket) set.passed();
      if (record.impatient > 0) record.wakeImpatient();
    }
  }

  /** The lock is over, and its release is on its way on every connection: the next one here can ask already. */
  freed(lock: HeldLock, records: readonly KeyRecord[]): void {
    for (const record of records) {
      if (record.lock !== lock) continue;
      record.lock = undefined;
      record.heldMs = this.#set.nowMs - record.busyAtMs;
    }
    for (const record of records) {
      // One that lets others go first subscribes right after its release.
      if (record.isSubscribed || record.turns !== undefined) record.published(lock.holder);
      if (record.first !== undefined || record.claims !== undefined) record.wake();
      this.drop(record);
    }
  }

  /**
   * `listeners` connections received the release of this key; one of them may be of this process. With `unlessTaken` none has
   * where a vote of the next caller here left with it: then nothing is known, and the row goes on.
   */
  counted(key: string, listeners: number, unlessTaken = false): void {
    const known = this.#records[key];
    const isWithheld = unlessTaken && listeners === 0 && known?.trying !== undefined;
    if (isWithheld && known.turns !== undefined) return void (known.turns.grantsInARow += 1);
    const isAmongThem = known?.isSubscribed === true && !this.#set.receivesNoReleases;
    const rivals = listeners - (isAmongThem ? 1 : 0);
    const record = rivals > 0 ? this.use(key) : known;
    if (record === undefined) return;
    if (rivals > 0) {
      record.turns ??= new Turns();
      record.turns.grantsInARow += 1;
      record.turns.rivals = rivals;
      this.drop(record);
    } else if (record.turns !== undefined) record.turns.grantsInARow = record.turns.rivals = 0;
  }

  /** The ballot of a new attempt: never the same number twice while it is ahead of the clock. */
  nextBallot(records: readonly KeyRecord[]): number {
    const now = this.#set.environment.clock.wallMicros();
    let ballot = now;
    for (const { floor } of records) if (floor >= ballot) ballot = floor + 1;
    if (ballot > now) for (const record of records) record.floor = ballot;
    return ballot;
  }

  /** What is remembered is a cache: losing it costs a round trip, never safety, because nodes refuse low ballots. */
  sawFloor(records: readonly KeyRecord[], floor: number): void {
    if (floor < this.#set.environment.clock.wallMicros()) return;
    for (const record of records) record.floor = Math.max(record.floor, floor);
  }

  /** A resource has seen this number under one of the keys: the next ballots are above it. */
  sawToken(keys: readonly string[], token: number): void {
    const records = this.useAll(keys);
    this.sawFloor(records, token);
    for (const record of records) this.drop(record);
  }

  /** From now on releases of this key in other processes are received. */
  subscribe(record: KeyRecord): void {
    record.subscribers += 1;
    if (record.linger !== undefined) this.#set.alarms.cancel(record.linger);
    if (record.isSubscribed) return;
    record.isSubscribed = true;
    const lockName = this.#set.options.keyPrefix + record.key;
    for (const { node } of this.#set.sessions) node.watch(lockName);
  }

  unsubscribe(record: KeyRecord): void {
    record.subscribers -= 1;
    if (record.subscribers > 0) return;
    record.linger = new Alarm(() => this.#unwatch(record));
    this.#set.alarms.set(record.linger, LINGER_MS, this.#set.nowMs);
  }

  /** A release was published by `holder`; `null` when something may have been missed. */
  hint(lockName: string, holder: string | null): void {
    const record = this.#records[lockName.slice(this.#set.options.keyPrefix.length)];
    if (record === undefined || (holder !== null && record.isOwn(holder))) return;
    if (holder !== null) {
      record.turns ??= new Turns();
      record.turns.released(holder, this.#set.nowMs);
      record.turns.taken();
    }
    this.#hint(record, this.#set.nowMs);
  }

  /** All callers look again: the set of voting nodes changed. */
  hintAll(): void {
    const { nowMs } = this.#set;
    for (const record of Object.values(this.#records)) this.#hint(record, nowMs);
  }

  #hint(record: KeyRecord, nowMs: number): void {
    record.hints += 1;
    record.hintAtMs = nowMs;
    record.foreign = undefined;
    record.wake();
  }

  #unwatch(record: KeyRecord): void {
    record.isSubscribed = false;
    const lockName = this.#set.options.keyPrefix + record.key;
    for (const { node } of this.#set.sessions) node.unwatch(lockName);
    this.#forget(record);
  }

  /** A record without content is gone, but for a bounded number that remember something. */
  #forget(record: KeyRecord): void {
    if (record.uses > 0 || record.isSubscribed) return;
    record.outage = undefined;
    record.named = undefined;
    record.busyAtMs = Number.NEGATIVE_INFINITY;
    this.#remembered.delete(record);
    const isAhead = record.floor > 0 && record.floor >= this.#set.environment.clock.wallMicros();
    if (isThorough && !isUnused(record))
      throw brokenInvariant('a record that is not in use has no content');
    let gone = record;
    if (isAhead || (record.turns?.grantsInARow ?? 0) > 0) {
      this.#remembered.add(record);
      if (this.#remembered.size <= MAX_REMEMBERED) return;
      [gone = record] = this.#remembered;
      this.#remembered.delete(gone);
      if (gone.uses > 0 || gone.isSubscribed) return;
    }
    delete this.#records[gone.key];
    this.size -= 1;
  }
}
