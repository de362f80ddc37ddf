import { AsyncResource } from 'node:async_hooks';
import { FencedUsageError, LockLostError, QuorumUnavailableError, sameLoss } from '../errors.ts';
import type { LockLossReason, NodeCause } from '../errors.ts';
import type { LockEvent } from '../events.ts';
import { FencingToken } from '../fencing-token.ts';
import type { Lock } from '../lock.ts';
import { Alarm } from '../nodes/deadlines.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { Granted } from '../voting/attempt.ts';
import type { ExtensionTarget } from '../voting/extension.ts';
import { shownLock, usedAfterRelease, type JoinedLock } from './joined-lock.ts';
import type { KeyRecord, KeyTable } from './key-table.ts';
import { Lease } from './lease.ts';
import { ReleaseRound } from './release.ts';

/**
 * - `granted`: a quorum voted for it; its holder does not have it yet.
 * - `held`: by the handle of its holder.
 * - `ending`: the handle was released, but sections that joined it still run.
 * - `stopping`: lost because its time ends; its holder was notified, and has what is left of the validity to stop.
 * - `kept`: no longer in use; the nodes keep it until `minHold` has passed.
 * - `over`: released, or lost for the reason in `lossError`.
 */
type HeldLockState = 'granted' | 'held' | 'ending' | 'stopping' | 'kept' | 'over';

/** What all locks of one service share. */
export interface LockRoom {
  readonly set: NodeSet;
  readonly table: KeyTable;
  /** Called when a lock ends, and again when its release is confirmed or given up. */
  readonly onEnd: () => void;
}

/** The call that a lock was granted to; `ticket` is its order of arrival. */
export interface GrantedCall {
  readonly keys: readonly string[];
  readonly records: readonly KeyRecord[];
  readonly settings: ResolvedAcquire;
  readonly ticket: number;
}

/** A lock from its grant to its end, and the handle of its holder. */
export class HeldLock implements Lock, ExtensionTarget {
  state: HeldLockState = 'granted';
  readonly keys: readonly string[];
  readonly holder: string;
  readonly ballot: number;
  readonly settings: ResolvedAcquire;
  /** Why its holder lost it; undefined while held, and when released. */
  lossError: LockLostError | undefined = undefined;
  /** The handle of its holder was released. */
  isHandleReleased = false;
  readonly #room: LockRoom;
  readonly records: readonly KeyRecord[];
  readonly #startedAtMs: number;
  readonly #set: NodeSet;
  readonly #lease: Lease;
  /** The call that acquired it: events and aborts run in its async context. To free it, dropping it is enough. */
  #context: AsyncResource | undefined;
  #token: FencingToken | undefined;
  #abort: AbortController | undefined;
  #release: ReleaseRound | undefined;
  #mayHold: number;
  /** Sections that joined it and still run. */
  #joined: Set<JoinedLock> | undefined;
  #mayReleaseWait = false;
  /** Fires once: when `ending` takes long, or when the time of `minHold` is over. */
  #timer: Alarm | undefined;

  constructor(room: LockRoom, { keys, records, settings }: GrantedCall, grant: Granted) {
    this.keys = keys;
    this.holder = grant.holder;
    this.ballot = grant.ballot;
    this.settings = settings;
    this.#mayHold = grant.mayHold;
    this.#room = room;
    this.records = records;
    this.#startedAtMs = grant.startedAtMs;
    this.#set = room.set;
    this.#lease = new Lease(room.set, this, grant.validUntilMs);
    room.table.granted(this, records);
  }

  /** Made when it is asked for: many holders never do. */
  get token(): FencingToken {
    if (this.state === 'granted')
      throw new FencedUsageError('The lock has no token yet.', this.keys);
    return (this.#token ??= new FencingToken(this.ballot, this.keys, this.holder));
  }

  /** The ballot until the token is known. */
  get #tokenValue(): number {
    return this.#token?.value ?? this.ballot;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.lossError !== undefined) this.#abort.abort(sameLoss(this.lossError));
    }
    return this.#abort.signal;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  get remainingMs(): number {
    return this.isHandleReleased ? 0 : this.validityMs;
  }

  /** Of the lock itself, for its handle and for sections that joined it. */
  get validityMs(): number {
    if (this.isUnused) return 0;
    return Math.max(0, this.#lease.validUntilMs - this.#set.checkedNowMs);
  }

  /** How long the nodes keep it as far as this process knows, in milliseconds: while it is only kept, until `minHold` ends. */
  get occupiedMs(): number {
    if (this.state === 'over') return 0;
    const keptUntilMs = this.state === 'kept' ? this.#timer?.dueMs : undefined;
    const untilMs = Math.min(this.#lease.validUntilMs, keptUntilMs ?? Infinity);
    return Math.max(0, untilMs - this.#set.nowMs);
  }

  /** No caller holds it any more. */
  get isUnused(): boolean {
    return this.state === 'over' || this.state === 'kept' || this.state === 'stopping';
  }

  /** Counts the sections that joined it and still run. */
  get sections(): number {
    return this.#joined?.size ?? 0;
  }

  /** The grant is complete: hands the lock to its holder, in whose async context it is called. @param token another than the ballot */
  start(token?: FencingToken): void {
    this.#context ??= new AsyncResource('RedlockLock', { requireManualDestroy: true });
    this.#token = token;
    this.state = 'held';
    if (this.settings.extend) this.#lease.keepExtended(this.#startedAtMs);
    else this.#lease.watch();
  }

  /** Before `start`: it can be lost, and is not extended. */
  watch(): void {
    this.#context = new AsyncResource('RedlockLock', { requireManualDestroy: true });
    this.#lease.watch();
  }

  ensure(ms = 0): void {
    this.noticeEnd();
    // A lock that was lost says so, also when it has been released since.
    if (this.lossError !== undefined) throw sameLoss(this.lossError);
    if (this.isHandleReleased) throw usedAfterRelease(this.keys);
    this.ensureLeft(ms);
  }

  /** @throws LockLostError (reason `short`), FencedUsageError */
  ensureLeft(ms: number): void {
    this.#lease.checkAsked(ms);
    if (this.validityMs < ms) throw new LockLostError(this.keys, 'short', this.#tokenValue);
  }

  /** Where its time is over though no timer has said so yet, it is lost; or released, if it was only kept. */
  noticeEnd(): void {
    if (this.state === 'kept' && this.occupiedMs === 0) this.#releaseOnNodes(this.#set.nowMs);
    else if (!this.isUnused && this.validityMs <= 0) this.#lease.validityEnded();
  }

  async extend(): Promise<void> {
    this.ensure();
    await this.extendNow();
    this.ensure();
  }

  /** @throws QuorumUnavailableError when no quorum answered; then the old validity stands */
  async extendNow(): Promise<void> {
    const askedAtMs = this.#set.nowMs;
    const outcome = await this.#lease.extendNow();
    // One that was lost meanwhile says so itself.
    if (outcome.decision === 'extended' || this.isUnused) return;
    const { quorum, sessions, nowMs } = this.#set;
    throw new QuorumUnavailableError(
      this.keys,
      nowMs - askedAtMs,
      quorum,
      sessions.length,
      outcome.causes(),
    );
  }

  release(): Promise<void> {
    return this.#giveBack() ? this.notified : Promise.resolve();
  }

  /** Whether its end is more than the loss that has already ended it. */
  #giveBack(): boolean {
    if (this.isHandleReleased) return true;
    this.noticeEnd();
    this.isHandleReleased = true;
    if (this.state === 'over') return false;
    if (!this.#joined?.size) this.#end();
    else if (this.state !== 'stopping') {
      this.state = 'ending';
      const { nowMs } = this.#set;
      this.#setTimer(this.settings.ttlMs, () => this.#delayed(nowMs));
    }
    return true;
  }

  /** As `release`, but waits no longer than until its bytes have left, and not for that where the next vote takes them along. */
  releaseSent(): Promise<void> | undefined {
    this.#mayReleaseWait = true;
    this.#giveBack();
    return this.#set.whenFlushed();
  }

  /** Resolves when its release has left, if that is due. */
  get sent(): Promise<void> | undefined {
    return this.#set.whenFlushed();
  }

  toJSON(): object {
    return shownLock(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Resolves when the nodes were notified of its end, or no answer is left to wait for. */
  get notified(): Promise<void> {
    return this.#release?.done ?? Promise.resolve();
  }

  /** A section begins that keeps the lock until it ends. */
  join(joined: JoinedLock): void {
    (this.#joined ??= new Set()).add(joined);
  }

  /** Returns the release of the lock when that section was the last. */
  leave(joined: JoinedLock): Promise<void> | undefined {
    if (this.#joined?.delete(joined) !== true || this.sections > 0) return undefined;
    if (!this.isHandleReleased || this.state === 'over') return undefined;
    this.#end();
    return this.notified;
  }

  lost(reason: LockLossReason, causes: readonly NodeCause[]): void {
    if (this.state === 'over') return;
    // A lock that is only kept for minHold has no holder that could lose it; its keys expire with their ttl.
    if (this.state === 'kept') return this.#free();
    const { nowMs } = this.#set;
    if (this.state === 'stopping') return this.#releaseOnNodes(nowMs);
    const error = new LockLostError(this.keys, reason, this.#tokenValue, causes);
    const wasGiven = this.state !== 'granted';
    const joined = [...(this.#joined ?? [])];
    // Ends all of them at once; their listeners run later.
    for (const each of joined) each.lossError = error;
    const isInUse = !this.isHandleReleased;
    if (isInUse) this.lossError = error;
    // While the work has time to stop no other holder may begin; nor before `minHold` has passed.
    const isTimeLeft = reason === 'expired' || reason === 'suspended';
    const keepMs = isTimeLeft ? this.#lease.validUntilMs - nowMs : 0;
    const mustKeepMs = this.#startedAtMs + this.settings.minHoldMs - nowMs;
    if (keepMs > 0) this.#keep('stopping', keepMs);
    else if (reason === 'closed' && mustKeepMs > 0) this.#free();
    else this.#releaseOnNodes(nowMs);
    this.#set.flush(); // What users run now may take its time.
    this.#inContext(() => {
      const { keys } = this;
      // Of one that it never had, the caller receives the error.
      if (wasGiven)
        this.#set.emit({ type: 'lost', keys, token: this.#tokenValue, error: sameLoss(error) });
      if (isInUse) this.#abort?.abort(sameLoss(error));
      for (const each of joined) each.notifyLoss();
    });
    this.#context = undefined; // No event follows: it can be freed.
    this.#room.onEnd();
  }

  asked(nodes: number): void {
    this.#mayHold |= nodes;
  }

  extended(remainingMs: number): void {
    if (!this.#set.hasOrdinaryListener) return;
    this.#emit({ type: 'extended', keys: this.keys, token: this.#tokenValue, remainingMs });
  }

  extensionFailed(remainingMs: number, causes: readonly NodeCause[]): void {
    const { keys } = this;
    this.#emit({ type: 'extension-failed', keys, token: this.#tokenValue, remainingMs, causes });
  }

  /** Proves to itself that it is still held, soon: a clock has moved. */
  extendSoon(): void {
    this.#lease.extendSoon();
  }

  /** It is no longer in use: the nodes are notified, now or when `minHold` has passed. */
  #end(): void {
    const { nowMs } = this.#set;
    if (this.state === 'stopping') return this.#releaseOnNodes(nowMs);
    const heldMs = nowMs - this.#startedAtMs;
    // Nothing ran under one that never reached its holder, and it was not reported as acquired.
    const wasHeld = this.state !== 'granted';
    const keepMs = wasHeld ? this.settings.minHoldMs - heldMs : 0;
    if (keepMs > 0) this.#keep('kept', keepMs);
    else this.#releaseOnNodes(nowMs);
    const { keys } = this;
    const released: LockEvent = { type: 'released', keys, token: this.#tokenValue, heldMs };
    const context = this.#context;
    if (this.#set.hasOrdinaryListener && wasHeld) {
      this.#set.afterFlush(() => context?.runInAsyncScope(() => this.#set.emit(released)));
    }
    this.#context = undefined;
    this.#room.onEnd();
  }

  /** Its release is due then. */
  #keep(state: 'stopping' | 'kept', keepMs: number): void {
    this.#lease.stopExtending();
    this.state = state;
    this.#setTimer(Math.ceil(keepMs), () => this.#releaseOnNodes(this.#set.nowMs));
  }

  #releaseOnNodes(nowMs: number): void {
    const token = this.#tokenValue;
    this.#release = new ReleaseRound(this.#room, this, token, this.#mayHold, this.#context);
    // No extension may follow the release.
    this.#lease.end();
    this.#release.run(nowMs, this.#mayReleaseWait);
    this.#free();
  }

  /** Others in this process may ask for its keys. */
  #free(): void {
    this.state = 'over';
    this.#lease.end();
    if (this.#timer !== undefined) this.#set.alarms.cancel(this.#timer);
    this.#room.table.freed(this, this.records);
  }

  #delayed(endingSinceMs: number): void {
    const sinceMs = this.#set.nowMs - endingSinceMs;
    const { keys, sections } = this;
    this.#emit({ type: 'release-delayed', keys, token: this.#tokenValue, sections, sinceMs });
  }

  #setTimer(delayMs: number, onDeadline: () => void): void {
    if (this.#timer !== undefined) this.#set.alarms.cancel(this.#timer);
    this.#timer = new Alarm(onDeadline);
    this.#set.alarms.set(this.#timer, delayMs, this.#set.nowMs);
  }

  #emit(event: LockEvent): void {
    this.#inContext(() => this.#set.emit(event));
  }

  #inContext(callback: () => void): void {
    if (this.#context === undefined) callback();
    else this.#context.runInAsyncScope(callback);
  }
}
