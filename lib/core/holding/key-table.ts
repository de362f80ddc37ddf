import type { LockLossReason, NodeCause } from '../errors.ts';
import { brokenInvariant, isThorough } from '../invariant.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { Attempt, FailedAttempt } from '../voting/attempt.ts';
import { jitterMs, passOn, QueuePlace } from './queue-place.ts';

/** Records kept for nothing but what they remember of floors. */
const MAX_REMEMBERED = 4_096;
/** Time for which a process may keep a key for its own callers while others wait: hand-over inside a process is cheapest. */
const ROW_MS = 40;

/** A caller that waits for keys. It stands in one line at a time. */
export interface Waiter {
  /** Order of arrival in this process; of all keys together, so that overlapping sets stand in one order everywhere. */
  readonly ticket: number;
  /** Has no conclusive answer yet, which it is owed within a node timeout. */
  isImpatient: boolean;
  /** Its latest try: whether a node has named another holder so far. */
  readonly attempt: Pick<Attempt, 'isAnsweredSince' | 'openCauses' | 'heldBackMs'> | undefined;
  place: KeyRecord | undefined;
  previousInLine: Waiter | undefined;
  nextInLine: Waiter | undefined;
  /** Something changed: it looks again whether it can try. */
  wake(): void;
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

/** A lock of this process, as its keys know it. */
export interface KeyLock {
  readonly keys: readonly string[];
  /** It is lost or released, though nodes may still have it. */
  readonly isEnding: boolean;
  /** Its holder, or a section that joined it, has not released it. */
  readonly isUsed: boolean;
  /** Its holder has it. */
  readonly isGiven: boolean;
  /** How long the nodes keep it as far as this process knows. */
  readonly occupiedMs: number;
  /** Where its time is over though no timer has said so yet, it ends. */
  noticeEnd(): void;
  /** Proves to itself that it is still held, soon: a clock has moved. */
  extendSoon(): void;
  lost(reason: LockLossReason, causes: readonly NodeCause[]): void;
}

/** Everything this process knows of one key. */
export class KeyRecord {
  readonly key: string;
  /** Held here: also while it is only kept for `minHold`. */
  lock: KeyLock | undefined = undefined;
  /** Whose try for a lock with this key is under way. One at a time in this process. */
  trying: Waiter | undefined = undefined;
  foreign: ForeignHolder | undefined = undefined;
  /** When it was last granted here, or a quorum named another holder. */
  busyAtMs = Number.NEGATIVE_INFINITY;
  /** When a node last named another holder, and when its lease was to end. */
  named: { readonly atMs: number; readonly freeAtMs: number } | undefined = undefined;
  /** The latest outage that a try for this key found; Verdict decides whether it still counts. */
  outage: FailedAttempt | undefined = undefined;
  /** Sets that wait for this key, wherever they stand. */
  sets: Set<Waiter> | undefined = undefined;
  /** Set that waits for another key, and keeps this one from later callers: once between two tries for it. */
  reserved: { readonly ticket: number; readonly untilMs: number } | undefined = undefined;
  first: Waiter | undefined = undefined;
  last: Waiter | undefined = undefined;
  /** How many in line are impatient; 0 saves a walk. */
  impatient = 0;
  /** Place of this process among those that wait for the key; undefined where no caller here has to wait for another process. */
  queued: QueuePlace | undefined = undefined;
  /** Nodes said when the key was last released here that other processes wait for it. */
  othersWait = false;
  /** When it was granted first in the present row of grants here. Undefined before: few keys are handed over here. */
  rowSinceMs: number | undefined = undefined;
  /** Counts how often it may have become free, and when the head of its line may try since. */
  hints = 0;
  hintAtMs: number | undefined = undefined;
  /** Highest floor that nodes reported, while it is ahead of our clock; microseconds. */
  floor = 0;
  /** Waiters and locks that refer to it. */
  uses = 0;

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
      // Another line may have a set that waits for the end of the holder.
      if (!this.isAwaited) this.foreign = undefined;
    } else if (previous === undefined) this.wake();
  }

  /** Says whether an earlier set keeps it from a caller with this number of arrival. */
  isReserved(ticket: number, nowMs: number): boolean {
    const { reserved } = this;
    return reserved !== undefined && reserved.ticket < ticket && nowMs < reserved.untilMs;
  }

  /** Wakes the head of the line: the key may be free. */
  wake(): void {
    this.first?.wake();
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

  /** Lets the line look again; its head may try from `atMs` on. */
  mayBeFree(atMs: number): void {
    this.hints += 1;
    this.hintAtMs = atMs;
    this.foreign = undefined;
    this.wake();
  }

  /** Says whether a caller here waits for it, tries for it, or needs it for a set. */
  get isAwaited(): boolean {
    return this.first !== undefined || this.trying !== undefined || !!this.sets?.size;
  }
}

function isUnused({ lock, isAwaited, reserved, queued }: KeyRecord): boolean {
  return !isAwaited && (lock ?? reserved ?? queued) === undefined;
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
    for (const { lock } of records) if (lock?.isEnding) lock.noticeEnd();
    return records;
  }

  drop(record: KeyRecord): void {
    record.uses -= 1;
    const { queued, foreign, rowSinceMs, lock } = record;
    if ((queued ?? foreign ?? rowSinceMs) !== undefined && !record.isAwaited) {
      queued?.passOn();
      record.foreign = record.queued = undefined;
      if (rowSinceMs !== undefined && lock === undefined) {
        // Nodes kept it for the next caller here, who has left.
        for (const session of this.#set.sessions) passOn(this.#set, session, record.key);
        record.rowSinceMs = undefined;
      }
    }
    this.#forget(record);
  }

  /** Every lock once. */
  locks(): Set<KeyLock> {
    const locks = new Set<KeyLock>();
    for (const { lock } of Object.values(this.#records)) if (lock !== undefined) locks.add(lock);
    return locks;
  }

  granted(lock: KeyLock, records: readonly KeyRecord[]): void {
    for (const record of records) {
      if (record.lock !== undefined) throw brokenInvariant('a key has one lock in one process');
      record.lock = lock;
      record.trying = undefined;
      record.foreign = undefined;
      record.busyAtMs = this.#set.nowMs;
      record.queued?.end();
      record.queued = undefined;
      record.uses += 1;
    }
    for (const record of records) if (record.impatient > 0) record.wakeImpatient();
  }

  /** The lock is over, and its release is on its way on every connection: the next one here can ask already. */
  freed(lock: KeyLock, records: readonly KeyRecord[]): void {
    for (const record of records) {
      if (record.lock === lock) record.lock = undefined;
    }
    for (const record of records) {
      if (record.first !== undefined) record.wake();
      this.drop(record);
    }
  }

  /**
   * Says whether it is the turn of other processes when this lock is released now. A row of grants here lasts for 40 ms, or
   * hand-over between processes would take most of the time of short holds.
   */
  passes(records: readonly KeyRecord[], nowMs: number): boolean {
    const [record, ...others] = records as [KeyRecord];
    const sinceMs = record.rowSinceMs ?? record.busyAtMs;
    const stays = others.length === 0 && record.first !== undefined && nowMs - sinceMs < ROW_MS;
    for (const each of records) each.rowSinceMs = stays ? sinceMs : undefined;
    return !stays;
  }

  /** Lets callers here stand behind others that wait, whose turn it is. */
  standBehind(records: readonly KeyRecord[], nowMs: number): void {
    for (const record of records) {
      if (record.first === undefined || !record.othersWait) continue;
      this.stand(record, nowMs);
      const untilMs = nowMs + this.#set.options.acquire.nodeTimeoutMs;
      // Processes that waited may have died: this is no evidence of a holder.
      record.foreign = { untilMs, freeAtMs: nowMs, causes: () => [] };
    }
  }

  /** Stands in line at the nodes for a caller here. */
  stand(record: KeyRecord, nowMs: number): void {
    record.queued ??= new QueuePlace(this.#set, record);
    record.queued.stand(nowMs);
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

  /** Hears that a node keeps a lock for this process; with `keptMs` for another one, and this one is behind it. */
  turn(session: NodeSession, lockName: string, keptMs: number): void {
    const key = lockName.slice(this.#set.options.keyPrefix.length);
    const record = this.#records[key];
    if (record?.queued !== undefined) {
      if (record.trying !== undefined) return;
      if (keptMs > 0) record.queued.standBy(keptMs);
      else record.queued.turn(session);
    } else if (keptMs === 0 && record?.lock === undefined) {
      // Nodes that did not vote for the latest grant here may name an old place, also while a caller tries.
      passOn(this.#set, session, key);
    }
  }

  /** Hears that a node reports turns from now on: those before may have gone to the next in line. */
  listening(session: NodeSession): void {
    for (const { queued } of Object.values(this.#records)) queued?.standAt(session);
  }

  /** All callers look again: the set of voting nodes changed. */
  hintAll(): void {
    const { nowMs, roundTripMs, environment } = this.#set;
    for (const record of Object.values(this.#records))
      record.mayBeFree(nowMs + jitterMs(0, roundTripMs, environment.random.fraction()));
  }

  /** A record without content is gone, but for a bounded number that remember something. */
  #forget(record: KeyRecord): void {
    if (record.uses > 0) return;
    record.outage = undefined;
    record.named = undefined;
    record.busyAtMs = Number.NEGATIVE_INFINITY;
    this.#remembered.delete(record);
    const isAhead = record.floor > 0 && record.floor >= this.#set.environment.clock.wallMicros();
    if (isThorough && !isUnused(record))
      throw brokenInvariant('a record that is not in use has no content');
    let gone = record;
    if (isAhead) {
      this.#remembered.add(record);
      if (this.#remembered.size <= MAX_REMEMBERED) return;
      [gone = record] = this.#remembered;
      this.#remembered.delete(gone);
      if (gone.uses > 0) return;
    }
    delete this.#records[gone.key];
    this.size -= 1;
  }
}
