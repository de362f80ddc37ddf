import { brokenInvariant } from '../errors.ts';
import type { KeyLock, LockedKeys } from '../holding/key-lock.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { FailedAttempt } from '../voting/attempt.ts';
import { jitterMs } from './back-off.ts';
import { KeyLine, type Waiter } from './key-line.ts';
import { KeyTurn } from './key-turn.ts';
import { POLL_MS, type ForeignHolder, type QueuedKey } from './queue-place.ts';

/** Everything this process knows of one key, and who waits for it. */
export class KeyRecord implements QueuedKey {
  readonly key: string;
  /** The callers here that wait for it. */
  readonly line = new KeyLine();
  /** This process among others that wait for it; undefined until callers here had to, or were given it one after the other. */
  turn: KeyTurn | undefined = undefined;
  /** Held here: also while it is only kept for `minHold`. */
  lock: KeyLock | undefined = undefined;
  /** Caller whose try for a lock with this key is under way. One at a time in this process. */
  trying: Waiter | undefined = undefined;
  /** Set that waits for another key, and keeps this one from later callers: once between two tries for it. */
  reserved: { readonly arrival: number; readonly untilMs: number } | undefined = undefined;
  foreign: ForeignHolder | undefined = undefined;
  /** Time until which it has a holder, here or elsewhere, as far as is known: infinite while it is held here. */
  busyUntilMs = Number.NEGATIVE_INFINITY;
  /** Time until which the word of single nodes counts that named another holder. */
  namedUntilMs = Number.NEGATIVE_INFINITY;
  /** The latest outage that a try for this key found; whether it still counts depends on who asks. */
  outage: FailedAttempt | undefined = undefined;
  /** Waiters and locks that refer to it. */
  uses = 0;

  constructor(key: string) {
    this.key = key;
  }

  get isForSet(): boolean {
    return (this.trying ?? this.line.first)?.call.keys.length !== 1;
  }

  /** A node named another holder, whose lease runs for so long; -1 without TTL. That is news for two node timeouts, or until the next poll. */
  noteHolder(nowMs: number, remainingMs: number, nodeTimeoutMs: number): void {
    const newsMs = Math.max(2 * nodeTimeoutMs, POLL_MS);
    const forMs = remainingMs < 0 ? newsMs : Math.min(remainingMs, newsMs);
    this.namedUntilMs = Math.max(this.namedUntilMs, nowMs + forMs);
  }

  /** Nothing is known of a holder any more. */
  forgetHolder(nowMs: number): void {
    this.foreign = undefined;
    this.busyUntilMs = Math.min(this.busyUntilMs, nowMs);
  }

  /** Lets the line look again; its head may try from `fromMs` on. */
  mayBeFree(nowMs: number, fromMs: number): void {
    if (this.lock === undefined) this.forgetHolder(nowMs);
    this.line.first?.wake(fromMs);
  }

  /** Ends a row for which nobody here tries any more: `waiter`, the caller that could, waits. */
  yieldRow(waiter: Waiter): void {
    const isIdle = this.lock === undefined && this.trying === undefined;
    const isNext = (this.line.first ?? waiter) === waiter;
    if (isIdle && isNext && this.turn?.isInRow) this.turn.passOn();
  }
}

/** The records of the keys that this process holds, tries for or waits for. */
export class Keys implements LockedKeys {
  readonly #nodes: NodeSet;
  /**
   * Object and no Map: where entries come and go V8 makes a new table all the time, and an outgrown one that has become old keeps
   * all later ones, with all that was in them, until the next full collection. That was a third of the time of a busy client.
   */
  readonly #records = Object.create(null) as Record<string, KeyRecord>;

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
    const { turn, lock } = record;
    // A caller here waits for it or tries for it, alone or in a set.
    const isAwaited = record.uses > (lock === undefined ? 0 : 1);
    if (!isAwaited) {
      turn?.end();
      record.foreign = undefined;
      if (lock === undefined) turn?.passOn();
    }
    if (record.uses === 0) delete this.#records[record.key];
  }

  locks(): Set<KeyLock> {
    const locks = new Set<KeyLock>();
    for (const { lock } of Object.values(this.#records)) if (lock !== undefined) locks.add(lock);
    return locks;
  }

  granted(lock: KeyLock): void {
    const records = this.use(lock.call.keys);
    for (const record of records) {
      if (record.lock !== undefined) throw brokenInvariant('a key has one lock in one process');
      record.lock = lock;
      record.trying = undefined;
      record.foreign = undefined;
      record.busyUntilMs = Number.POSITIVE_INFINITY;
      record.turn?.end();
    }
    for (const { line } of records) line.wakeOwed();
  }

  passOrKeep(lock: KeyLock, nowMs: number): boolean {
    const { call, grant } = lock;
    const records = call.keys.map((key) => this.#records[key]!);
    const [record] = records as [KeyRecord];
    const isAwaited = records.length === 1 && record.line.first !== undefined;
    const grantedAtMs = grant.startedAtMs + grant.roundTripMs;
    if (isAwaited && this.#turnAt(record).keep(grantedAtMs, nowMs)) return false;
    for (const { turn } of records) if (turn?.pass()) lock.mayHold = this.#nodes.allBits;
    return true;
  }

  /** Callers here wait for another process: it takes its place in the line of the nodes. */
  stand(record: KeyRecord, nowMs: number): void {
    this.#turnAt(record).stand(nowMs);
  }

  #turnAt(record: KeyRecord): KeyTurn {
    return (record.turn ??= new KeyTurn(this.#nodes, record));
  }

  freed(lock: KeyLock): void {
    const { nowMs } = this.#nodes.clock;
    const records = lock.call.keys.map((key) => this.#records[key]!);
    for (const record of records) {
      record.lock = undefined;
      record.busyUntilMs = nowMs;
    }
    for (const record of records) {
      record.line.first?.wake();
      this.drop(record);
    }
  }

  /** See LockNodeListener. A process that has left the line has passed its turn on by doing so. */
  turn(session: NodeSession, lockName: string, keptMs: number): void {
    const key = lockName.slice(this.#nodes.options.keyPrefix.length);
    const { trying, turn } = this.#records[key] ?? {};
    if (trying !== undefined) return;
    if (keptMs > 0) turn?.place?.standBy(keptMs);
    else turn?.place?.turn(session);
  }

  /** Hears that a node reports turns from now on: those before may have gone to the next in line. */
  listening(session: NodeSession): void {
    for (const { turn } of Object.values(this.#records)) turn?.place?.standAt(session);
  }

  /** Lets all callers look again: the nodes that vote have changed. */
  hintAll(): void {
    const { nowMs } = this.#nodes.clock;
    for (const record of Object.values(this.#records))
      record.mayBeFree(nowMs, nowMs + jitterMs(this.#nodes));
  }
}
