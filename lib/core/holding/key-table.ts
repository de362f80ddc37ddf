import { brokenInvariant, type LockLossReason, type NodeCause } from '../errors.ts';
import type { AboutLock } from '../events.ts';
import type { OwnLock } from '../lock.ts';
import { Deadline } from '../nodes/deadlines.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { Attempt, FailedAttempt, Granted, LockCall } from '../voting/attempt.ts';
import { jitterMs, POLL_MS, QueuePlace } from './queue-place.ts';
import type { ForeignHolder, QueuedKey } from './queue-place.ts';

/** Keys whose floors are remembered. */
const MOST_FLOORS = 4_096;
/** Time for which a process may keep a key for its own callers while others wait: hand-over inside a process is cheapest. */
const ROW_MS = 40;

/** A caller that waits for keys. It stands in one line at a time. */
export abstract class Waiter extends Deadline {
  place: KeyLine | undefined = undefined;
  previousInLine: Waiter | undefined = undefined;
  nextInLine: Waiter | undefined = undefined;
  /** The order of arrival in this process; of all keys together, so that overlapping sets stand in one order everywhere. */
  abstract readonly call: LockCall & { readonly arrival: number };
  abstract readonly attempt: Attempt | undefined;

  /** Looks again whether it can try, because something changed; it may from `fromMs` on, if that is given. */
  abstract wake(fromMs?: number): void;
}

/** A lock of this process, as its keys, its lease and its release know it. */
export interface KeyLock {
  readonly call: LockCall;
  readonly grant: Granted;
  readonly records: readonly KeyRecord[];
  /** The fields that events about this lock have. */
  readonly about: AboutLock;
  /** Nodes that may hold it, as bits. The others know nothing of it: a frozen node gets no releases of locks it was not asked for. */
  mayHold: number;
  /** Whether it is lost or released, though nodes may still have it. */
  readonly isEnding: boolean;
  /** The time for which the nodes keep it as far as this process knows. */
  readonly occupiedMs: number;
  /** What people are told of it; undefined while no caller has it. */
  readonly report: OwnLock | undefined;
  /** Ends it where its time is over though no timer has said so yet. */
  noticeEnd(): void;
  /** Proves to itself that it is still held, soon: a clock has moved. */
  proveOrEnd(): void;
  lost(reason: LockLossReason, causes: readonly NodeCause[], revoked?: string): void;
}

/** The callers of this process that wait for one key, in the order of their arrival. */
export class KeyLine {
  first: Waiter | undefined = undefined;
  last: Waiter | undefined = undefined;
  /** Set that waits for another key, and keeps the key of this line from later callers: once between two tries for it. */
  reserved: { readonly arrival: number; readonly untilMs: number } | undefined = undefined;
  /** The waiters in it that have no answer yet, and no more time than one takes. */
  #owed: Set<Waiter> | undefined;

  /** Mostly behind all others, and in front for one that moves or comes back from its try. */
  enter(waiter: Waiter): void {
    let next: Waiter | undefined;
    if (this.last !== undefined && this.last.call.arrival > waiter.call.arrival) {
      next = this.first;
      while (next !== undefined && next.call.arrival < waiter.call.arrival) next = next.nextInLine;
    }
    const previous = next === undefined ? this.last : next.previousInLine;
    waiter.place = this;
    waiter.previousInLine = previous;
    waiter.nextInLine = next;
    if (previous === undefined) this.first = waiter;
    else previous.nextInLine = waiter;
    if (next === undefined) this.last = waiter;
    else next.previousInLine = waiter;
  }

  /** A head that leaves hands its wake-up on. */
  leave(waiter: Waiter): void {
    const { previousInLine: previous, nextInLine: next } = waiter;
    if (previous === undefined) this.first = next;
    else previous.nextInLine = next;
    if (next === undefined) this.last = previous;
    else next.previousInLine = previous;
    waiter.place = waiter.previousInLine = waiter.nextInLine = undefined;
    this.#owed?.delete(waiter);
    if (previous === undefined) this.first?.wake();
  }

  /** Notes whether it is owed an answer: then the end of every try wakes it. */
  owe(waiter: Waiter, isOwed: boolean): void {
    if (isOwed) (this.#owed ??= new Set()).add(waiter);
    else this.#owed?.delete(waiter);
  }

  /** A try for the key has ended: there may be an answer, or the need for a try of their own. */
  wakeOwed(): void {
    if (this.#owed?.size) for (const waiter of this.#owed) waiter.wake();
  }
}

/** Everything this process knows of one key, and who waits for it. */
export class KeyRecord extends KeyLine implements QueuedKey {
  readonly key: string;
  /** Held here: also while it is only kept for `minHold`. */
  lock: KeyLock | undefined = undefined;
  grantedAtMs = 0;
  /** Caller whose try for a lock with this key is under way. One at a time in this process. */
  trying: Waiter | undefined = undefined;
  foreign: ForeignHolder | undefined = undefined;
  /** Time until which it has a holder, here or elsewhere, as far as is known: infinite while it is held here. */
  busyUntilMs = Number.NEGATIVE_INFINITY;
  /** Time until which the word of single nodes counts that named another holder. */
  namedUntilMs = Number.NEGATIVE_INFINITY;
  /** The latest outage that a try for this key found; whether it still counts depends on who asks. */
  outage: FailedAttempt | undefined = undefined;
  /** Place of this process among those that wait for the key; undefined where no caller here has to wait for another process. */
  queued: QueuePlace | undefined = undefined;
  /** Whether nodes may have a place of this process in the line of the key. */
  isInLine = false;
  /** When it was granted first in the present row of grants here. Undefined before: few keys are handed over here. */
  rowSinceMs: number | undefined = undefined;
  /** Waiters and locks that refer to it. */
  uses = 0;

  constructor(key: string) {
    super();
    this.key = key;
  }

  get isForSet(): boolean {
    return (this.trying ?? this.first)?.call.keys.length !== 1;
  }

  /** A node named another holder, whose lease runs for so long; -1 without TTL. That is news for two node timeouts, or until the next poll. */
  wasNamed(nowMs: number, remainingMs: number, nodeTimeoutMs: number): void {
    const newsMs = Math.max(2 * nodeTimeoutMs, POLL_MS);
    const forMs = remainingMs < 0 ? newsMs : Math.min(remainingMs, newsMs);
    this.namedUntilMs = Math.max(this.namedUntilMs, nowMs + forMs);
  }

  /** Nothing is known of a holder any more. */
  ended(nowMs: number): void {
    this.foreign = undefined;
    this.busyUntilMs = Math.min(this.busyUntilMs, nowMs);
  }

  /** Lets the line look again; its head may try from `fromMs` on. */
  mayBeFree(nowMs: number, fromMs: number): void {
    if (this.lock === undefined) this.ended(nowMs);
    this.first?.wake(fromMs);
  }
}

/** Records, one per key that this process holds, tries for or waits for. */
export class KeyTable {
  readonly #nodes: NodeSet;
  /**
   * Object and no Map: where entries come and go V8 makes a new table all the time, and an outgrown one that has become old keeps
   * all later ones, with all that was in them, until the next full collection. That was a third of the time of a busy client.
   */
  readonly #records = Object.create(null) as Record<string, KeyRecord>;
  /** Highest floor by key that nodes reported ahead of our clock, in microseconds; the one that was seen first comes first. */
  readonly #floors = new Map<string, number>();
  /** The number of releases that may still be confirmed. */
  openReleases = 0;

  constructor(nodes: NodeSet) {
    this.#nodes = nodes;
  }

  get size(): number {
    return Object.keys(this.#records).length;
  }

  /** The records of `keys`, in use until they are dropped again. */
  use(keys: readonly string[]): readonly KeyRecord[] {
    return keys.map((key) => {
      const record = (this.#records[key] ??= new KeyRecord(key));
      record.uses += 1;
      if (record.lock?.isEnding) record.lock.noticeEnd();
      return record;
    });
  }

  drop(record: KeyRecord): void {
    record.uses -= 1;
    const { queued, lock } = record;
    // A caller here waits for it or tries for it, alone or in a set.
    const isAwaited = record.uses > (lock === undefined ? 0 : 1);
    if (!isAwaited) {
      queued?.end();
      record.foreign = record.queued = undefined;
      if (lock === undefined) this.#passOn(record);
    }
    if (record.uses === 0) delete this.#records[record.key];
  }

  /** Ends a row for which nobody here tries any more: the caller that could, and waits, does not. */
  yields(waiter: Waiter, records: readonly KeyRecord[]): void {
    for (const record of records) {
      const { rowSinceMs, lock, trying, first = waiter } = record;
      const isKept = rowSinceMs !== undefined && lock === undefined && trying === undefined;
      if (isKept && first === waiter) this.#passOn(record);
    }
  }

  /** Gives back what nodes keep for callers here, and the place of this process in the line. */
  #passOn(record: KeyRecord): void {
    if (!record.isInLine && record.rowSinceMs === undefined) return;
    record.isInLine = false;
    record.rowSinceMs = undefined;
    const { options, mark, clock } = this.#nodes;
    const names = new NodeNames(options.keyPrefix, [record.key]);
    const request = { names, holder: `#${mark}`, granted: true, pass: true };
    this.#nodes.release(this.#allNodes, request, clock.nowMs);
  }

  /** All nodes, as bits. */
  get #allNodes(): number {
    return (1 << this.#nodes.sessions.length) - 1;
  }

  locks(): Set<KeyLock> {
    const locks = new Set<KeyLock>();
    for (const { lock } of Object.values(this.#records)) if (lock !== undefined) locks.add(lock);
    return locks;
  }

  granted(lock: KeyLock, records: readonly KeyRecord[]): void {
    for (const record of records) {
      if (record.lock !== undefined) throw brokenInvariant('a key has one lock in one process');
      record.lock = lock;
      record.grantedAtMs = this.#nodes.clock.nowMs;
      record.trying = undefined;
      record.foreign = undefined;
      record.busyUntilMs = Number.POSITIVE_INFINITY;
      record.queued?.end();
      record.queued = undefined;
      record.uses += 1;
    }
    for (const record of records) if (record.first !== undefined) record.wakeOwed();
  }

  /** The lock is over, and its release is on its way on every connection: the next one here can ask already. */
  freed(lock: KeyLock, records: readonly KeyRecord[]): void {
    const { nowMs } = this.#nodes.clock;
    for (const record of records) {
      if (record.lock !== lock) continue;
      record.lock = undefined;
      record.busyUntilMs = nowMs;
    }
    for (const record of records) {
      record.first?.wake();
      this.drop(record);
    }
  }

  /**
   * Says whether it is the turn of other processes when this lock is released now. A row of grants here lasts for 40 ms, or
   * hand-over between processes would take most of the time of short holds. At its end this process leaves the line at all nodes:
   * those that did not vote for it would name its old place, ahead of others that have waited for longer.
   */
  passes(lock: KeyLock, nowMs: number): boolean {
    const { records } = lock;
    const [record] = records as [KeyRecord];
    const sinceMs = record.rowSinceMs ?? record.grantedAtMs;
    const stays = records.length === 1 && record.first !== undefined && nowMs - sinceMs < ROW_MS;
    for (const each of records) {
      each.rowSinceMs = stays ? sinceMs : undefined;
      if (stays || !each.isInLine) continue;
      each.isInLine = false;
      lock.mayHold = this.#allNodes;
    }
    return !stays;
  }

  stand(record: KeyRecord, nowMs: number): void {
    // Its row is over, and what nodes keep for it is the turn of others.
    if (record.rowSinceMs !== undefined) this.#passOn(record);
    record.isInLine = true;
    record.queued ??= new QueuePlace(this.#nodes, record);
    record.queued.stand(nowMs);
  }

  /** The ballot of a new attempt: never the same number twice while it is ahead of the clock. */
  nextBallot(keys: readonly string[]): number {
    const now = this.#nodes.environment.clock.wallMicros();
    let ballot = now;
    for (const key of keys) ballot = Math.max(ballot, (this.#floors.get(key) ?? 0) + 1);
    if (ballot > now) this.sawFloor(keys, ballot);
    return ballot;
  }

  /**
   * Nodes, or a resource, have seen this number under one of the keys: the next ballots are above it. What is remembered is a
   * cache: losing it costs a round trip, never safety, because nodes refuse low ballots.
   */
  sawFloor(keys: readonly string[], floor: number): void {
    if (floor < this.#nodes.environment.clock.wallMicros()) return;
    for (const key of keys) this.#floors.set(key, Math.max(this.#floors.get(key) ?? 0, floor));
    for (const oldest of this.#floors.keys()) {
      if (this.#floors.size <= MOST_FLOORS) return;
      this.#floors.delete(oldest);
    }
  }

  /** See LockNodeListener. */
  turn(session: NodeSession, lockName: string, keptMs: number): void {
    const key = lockName.slice(this.#nodes.options.keyPrefix.length);
    const { queued, trying } = this.#records[key] ?? {};
    // A process that has left the line has passed its turn on by doing so.
    if (queued === undefined || trying !== undefined) return;
    if (keptMs > 0) queued.standBy(keptMs);
    else queued.turn(session);
  }

  /** Hears that a node reports turns from now on: those before may have gone to the next in line. */
  listening(session: NodeSession): void {
    for (const { queued } of Object.values(this.#records)) queued?.standAt(session);
  }

  /** Lets all callers look again: the set of voting nodes changed. */
  hintAll(): void {
    const { clock, quorum, environment } = this.#nodes;
    const { nowMs } = clock;
    for (const record of Object.values(this.#records))
      record.mayBeFree(nowMs, nowMs + jitterMs(quorum.roundTripMs, environment.random.fraction()));
  }
}
