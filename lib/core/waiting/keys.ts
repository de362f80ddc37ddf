import { brokenInvariant } from '../errors.ts';
import type { KeyLock, LockedKeys } from '../holding/key-lock.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { slotKey } from '../options/lock-keys.ts';
import type { FailedAttempt } from '../voting/attempt.ts';
import { jitterMs } from './back-off.ts';
import { KeyLine, type Waiter } from './key-line.ts';
import { KeyTurn, leaveLine } from './key-turn.ts';
import { POLL_MS, type ForeignHolder, type QueuedKey } from './queue-place.ts';

/** Everything this process knows of one key, and who waits for it. */
export class KeyRecord implements QueuedKey {
  /** The callers here that wait for it; undefined until one did. */
  line: KeyLine | undefined = undefined;
  /** This process among others that wait for it; undefined until callers here had to, or were given it one after the other. */
  turn: KeyTurn | undefined = undefined;
  /** The lock that has it here, also while it is only kept for `minHold`. */
  lock: KeyLock | undefined = undefined;
  /** The one caller of this process that asks the nodes for it now. */
  trying: Waiter | undefined = undefined;
  /** A set that waits for another key keeps this one from later callers, once between two tries for it. */
  reserved: { readonly arrival: number; readonly untilMs: number } | undefined = undefined;
  foreign: ForeignHolder | undefined = undefined;
  /** Until when it has a holder, as far as is known: infinite while it is held here. */
  busyUntilMs = Number.NEGATIVE_INFINITY;
  /** Until when the word of single nodes counts that named a holder. */
  namedUntilMs = Number.NEGATIVE_INFINITY;
  /** The latest outage that a try for it found. Whether it still counts depends on who asks. */
  outage: FailedAttempt | undefined = undefined;
  /** How many callers and locks refer to it. */
  uses = 0;

  constructor(readonly key: string) {}

  /** The newest call that replaces holders has the highest number, and stands first. */
  get ticket(): number | undefined {
    const { number } = this.trying ?? this.line?.first ?? {};
    return number === undefined ? undefined : -number;
  }

  get isForSet(): boolean {
    return (this.trying ?? this.line?.first)?.call.keys.length !== 1;
  }

  /** A node named a holder, whose lease runs for so long (-1: no TTL). That counts for two node timeouts, or until the next poll. */
  noteHolder(nowMs: number, remainingMs: number, nodeTimeoutMs: number): void {
    const newsMs = Math.max(2 * nodeTimeoutMs, POLL_MS);
    const forMs = remainingMs < 0 ? newsMs : Math.min(remainingMs, newsMs);
    this.namedUntilMs = Math.max(this.namedUntilMs, nowMs + forMs);
  }

  forgetHolder(nowMs: number): void {
    this.foreign = undefined;
    this.busyUntilMs = Math.min(this.busyUntilMs, nowMs);
  }

  /** `waiter` stands in line for the key from now on. */
  enter(waiter: Waiter): void {
    (this.line ??= new KeyLine()).enter(waiter);
  }

  /** Lets the line look again; its head may try from `fromMs` on. */
  mayBeFree(nowMs: number, fromMs: number): void {
    if (this.lock === undefined) this.forgetHolder(nowMs);
    this.line?.first?.wake(fromMs);
  }

  /** Ends a row in which nobody here tries: `waiter`, the one caller that could, waits for something else, or there is none. */
  yieldRow(waiter?: Waiter): void {
    const isIdle = this.lock === undefined && this.trying === undefined;
    const isNext = (this.line?.first ?? waiter) === waiter;
    if (isIdle && isNext && this.turn?.isInRow) this.turn.passOn();
  }
}

/** The records of the keys that this process holds, tries for or waits for. */
export class Keys implements LockedKeys {
  readonly #nodes: NodeSet;
  readonly #records = new Map<string, KeyRecord>();

  constructor(nodes: NodeSet) {
    this.#nodes = nodes;
  }

  get size(): number {
    return this.#records.size;
  }

  /** The records of `keys`, in use until they are dropped again. */
  use(keys: readonly string[]): readonly KeyRecord[] {
    return keys.map((key) => {
      const record = this.#records.get(key) ?? new KeyRecord(key);
      this.#records.set(key, record);
      record.uses += 1;
      if (record.lock?.isEnding) record.lock.noticeEnd();
      return record;
    });
  }

  /** The records of the slots of `key`. Those who wait for one of them stand in one line. */
  useSlots(key: string, permits: number): readonly KeyRecord[] {
    const records = this.use(Array.from({ length: permits }, (_, slot) => slotKey(key, slot)));
    // Whoever wants a slot wants the first one as well, so nobody stands in another line.
    const line = records[0]!.line ?? new KeyLine();
    for (const record of records) record.line = line;
    return records;
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
    // The next caller of a row may have given up, and a set that waits for another key goes on to use the record.
    record.yieldRow();
    if (record.uses === 0) this.#records.delete(record.key);
  }

  locks(): Set<KeyLock> {
    const locks = new Set<KeyLock>();
    for (const { lock } of this.#records.values()) if (lock !== undefined) locks.add(lock);
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
    for (const { line } of records) line?.wakeOwed();
  }

  passOrKeep(lock: KeyLock, nowMs: number): boolean {
    const { call, grant } = lock;
    const records = this.#recordsOf(call.keys);
    const [record] = records as [KeyRecord];
    const isAwaited = records.length === 1 && record.line?.first !== undefined;
    const grantedAtMs = grant.startedAtMs + grant.roundTripMs;
    if (isAwaited && this.#turnAt(record).keep(grantedAtMs, nowMs)) return false;
    for (const { turn } of records) if (turn?.pass()) lock.mayHold = this.#nodes.allBits;
    return true;
  }

  /** Callers here wait for another process: this one takes its place in the line of the nodes. */
  stand(record: KeyRecord, nowMs: number): void {
    this.#turnAt(record).stand(nowMs);
  }

  #recordsOf(keys: readonly string[]): readonly KeyRecord[] {
    return keys.map((key) => this.#records.get(key)!);
  }

  #turnAt(record: KeyRecord): KeyTurn {
    return (record.turn ??= new KeyTurn(this.#nodes, record));
  }

  freed(lock: KeyLock): void {
    const { nowMs } = this.#nodes.clock;
    const records = this.#recordsOf(lock.call.keys);
    for (const record of records) {
      record.lock = undefined;
      record.busyUntilMs = nowMs;
    }
    for (const record of records) {
      record.line?.first?.wake();
      this.drop(record);
    }
  }

  /** See LockNodeListener. Where nobody here uses the key any more, the node keeps it for nobody. */
  turn(session: NodeSession, lockName: string, keptMs: number): void {
    const key = lockName.slice(this.#nodes.options.keyPrefix.length);
    const record = this.#records.get(key);
    if (keptMs < 0) return record?.lock?.proveOrEnd();
    const place = record?.trying === undefined ? record?.turn?.place : undefined;
    if (keptMs > 0) place?.standBy(keptMs);
    else if (record === undefined) leaveLine(this.#nodes, key, 1 << session.index);
    else place?.turn(session);
  }

  /** A node reports turns from now on. It may have given one before that went to the next in line. */
  listening(session: NodeSession): void {
    for (const { turn } of this.#records.values()) turn?.place?.standAt(session);
  }

  /** The nodes that vote have changed: all callers look again. */
  hintAll(): void {
    const { nowMs } = this.#nodes.clock;
    for (const record of this.#records.values())
      record.mayBeFree(nowMs, nowMs + jitterMs(this.#nodes));
  }
}
