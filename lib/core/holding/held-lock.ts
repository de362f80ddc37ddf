import {
  FencedUsageError,
  LockLostError,
  QuorumUnavailableError,
  quoteKeys,
  sameLoss,
} from '../errors.ts';
import type { LockLossReason, NodeCause } from '../errors.ts';
import type { AboutLock } from '../events.ts';
import { FencingToken } from '../fencing-token.ts';
import type { Lock, OwnLock } from '../lock.ts';
import { Alarm } from '../deadlines.ts';
import { NodeNames } from '../nodes/node-names.ts';
import { slotKey, slotOf } from '../options/lock-keys.ts';
import { inModuleContext } from '../system-environment.ts';
import type { Granted, LockCall } from '../voting/attempt.ts';
import { driftMs } from '../voting/vote-round.ts';
import type { KeyLock, SharedByLocks } from './key-lock.ts';
import { Lease } from './lease.ts';
import { ReleaseRound } from './release.ts';

/** A lock from its grant to its end. */
export class HeldLock implements KeyLock {
  /**
   * - `granted`: a quorum voted for it; its holder does not have it yet.
   * - `held`: in use.
   * - `timed`: the nodes keep it until its timer fires. It was lost, and who uses it has what is left of the validity to stop;
   *   or nobody uses it, and `minHold` has not passed.
   * - `over`: others may have its keys.
   */
  #state: 'granted' | 'held' | 'timed' | 'over' = 'granted';
  mayHold: number;
  readonly handle: LockHandle;
  readonly #handles: LockHandle[];
  readonly #shared: SharedByLocks;
  readonly #lease: Lease;
  #token: FencingToken | undefined;
  #release: ReleaseRound | undefined;
  /** Fires once: when sections keep it for long, or when `timed` ends. */
  #timer: Alarm | undefined;

  constructor(
    shared: SharedByLocks,
    readonly call: LockCall,
    readonly grant: Granted,
  ) {
    this.mayHold = grant.mayHold;
    this.handle = new LockHandle(this, call.keys);
    this.#handles = [this.handle];
    this.#shared = shared;
    this.#lease = new Lease(shared.nodes, this);
    shared.keys.granted(this);
  }

  get token(): FencingToken {
    const { ballot, holder } = this.grant;
    return (this.#token ??= new FencingToken(ballot, this.call.keys, holder));
  }

  /** The ballot where no source has issued a token. */
  get tokenValue(): number {
    return this.#token?.value ?? this.grant.ballot;
  }

  get about(): AboutLock {
    const { keys, caller } = this.call;
    return { keys, token: this.tokenValue, holder: this.grant.holder, ...caller };
  }

  get validityMs(): number {
    return Math.max(0, this.#lease.validUntilMs - this.#shared.nodes.clock.checkedNowMs);
  }

  get occupiedMs(): number {
    if (this.#state === 'over') return 0;
    const untilMs = this.#state === 'timed' ? this.#timer!.dueMs : this.#lease.validUntilMs;
    return Math.max(0, untilMs - this.#shared.nodes.clock.nowMs);
  }

  get report(): OwnLock | undefined {
    if (this.#state === 'granted') return undefined;
    const heldMs = this.#shared.nodes.clock.nowMs - this.grant.startedAtMs;
    return { ...this.about, heldMs, remainingMs: this.occupiedMs, sections: this.#handles.length };
  }

  get isEnding(): boolean {
    return this.#state === 'timed' || this.#state === 'over';
  }

  /** The grant is complete: its holder has it. @param token another than the ballot */
  start(token?: FencingToken): void {
    this.#token = token;
    this.#state = 'held';
    this.#lease.watch(this.call.settings.extend);
  }

  /** Watches it before `start`: it can be lost, and is not extended. */
  watch(): void {
    this.#lease.watch();
  }

  /** @throws LockLostError (reason `short`), FencedUsageError */
  ensureLeft(ms: number): void {
    this.#lease.checkAsked(ms);
    if (this.validityMs < ms) throw new LockLostError(this.call.keys, 'short', this.tokenValue);
  }

  noticeEnd(): void {
    if (this.#state === 'timed') {
      if (this.occupiedMs === 0) this.#free(true);
    } else if (this.#state !== 'over' && this.validityMs <= 0) this.#lease.validityEnded();
  }

  /** @throws QuorumUnavailableError */
  async extendNow(): Promise<void> {
    const askedAtMs = this.#shared.nodes.clock.nowMs;
    // The handle of the caller says that it was lost.
    if (this.#lease.noticeOverdue(askedAtMs)) return;
    const round = await this.#lease.extendNow();
    // The handle of a lock that was lost meanwhile says so.
    if (round.votes.decideExtension() === 'extended' || this.isEnding) return;
    const { options, sessions, clock } = this.#shared.nodes;
    const waitedMs = clock.nowMs - askedAtMs;
    const { keys } = this.call;
    const causes = round.causes();
    throw new QuorumUnavailableError(keys, waitedMs, options.quorum, sessions.length, causes);
  }

  join(keys: readonly string[]): LockHandle {
    const handle = new LockHandle(this, keys);
    this.#handles.push(handle);
    return handle;
  }

  leave(handle: LockHandle): void {
    const index = this.#handles.indexOf(handle);
    if (index >= 0) {
      this.#handles.splice(index, 1);
      if (this.#handles.length === 0) this.#end();
      else if (handle === this.handle && this.#state === 'held') this.#keepForSections();
    }
  }

  /** Resolves when the nodes were notified of its end, or no answer is left to wait for; undefined before the end. */
  whenNotified(): Promise<void> | undefined {
    return this.#release?.done;
  }

  lost(reason: LockLossReason, causes: readonly NodeCause[], revoked?: string): void {
    if (this.#state === 'over') return;
    // A lock that is only kept for minHold has no holder that could lose it; its keys expire with their ttl.
    if (this.#handles.length === 0) return this.#free(false);
    if (this.#state === 'timed') return this.#free(true);
    const { keys, settings } = this.call;
    const { nowMs } = this.#shared.nodes.clock;
    const error = new LockLostError(keys, reason, this.tokenValue, causes, undefined, revoked);
    const wasGiven = this.#state === 'held';
    const handles = [...this.#handles];
    // All uses end at once, before the listener of one runs.
    for (const each of handles) each.lossError = error;
    // The next holder begins neither while the work has time to stop, nor before `minHold` has passed.
    const isTimeLeft = reason !== 'taken' && reason !== 'closed';
    const keepMs = isTimeLeft ? this.#lease.validUntilMs - nowMs : 0;
    const mustKeepMs = wasGiven ? this.grant.startedAtMs + settings.minHoldMs - nowMs : 0;
    if (keepMs > 0) this.#keepFor(keepMs);
    else if (reason === 'closed' && mustKeepMs > 0) {
      this.#expireIn(mustKeepMs);
      this.#free(false);
    } else this.#free(true);
    this.#shared.nodes.outgoing.flush(); // Code of users runs now and may take its time.
    const { events } = this.#shared.nodes;
    const heldMs = nowMs - this.grant.startedAtMs;
    // A caller that never had the lock receives the error.
    if (wasGiven && reason === 'overdue') events.emit({ type: 'overdue', ...this.about, heldMs });
    if (wasGiven) events.emit({ type: 'lost', ...this.about, error: sameLoss(error) });
    inModuleContext(() => {
      for (const each of handles) each.notifyLoss();
    });
    this.#shared.onEnd();
  }

  proveOrEnd(): void {
    this.#lease.proveOrEnd();
  }

  /** Ends a lock that nobody uses any more: the nodes are notified, now or when `minHold` has passed. */
  #end(): void {
    if (this.#state === 'over') return;
    if (this.#state === 'timed') return this.#free(true);
    const { events, clock } = this.#shared.nodes;
    const heldMs = clock.nowMs - this.grant.startedAtMs;
    // Nothing ran under a lock that never reached its holder, and it was not reported as acquired.
    const wasGiven = this.#state === 'held';
    const keepMs = wasGiven ? this.call.settings.minHoldMs - heldMs : 0;
    if (keepMs > 0) {
      this.#keepFor(keepMs);
      this.#expireIn(keepMs);
    } else this.#free(true);
    if (wasGiven && events.takesOrdinary) events.emit({ type: 'released', ...this.about, heldMs });
    this.#shared.onEnd();
  }

  #keepFor(keepMs: number): void {
    // It ends with its timer: where its ttl is no longer than `minHold`, the validity is over before the nodes give it up.
    this.#lease.stopWatching();
    this.#state = 'timed';
    this.#setTimer(Math.ceil(keepMs), () => this.#free(true));
  }

  /** Nobody uses it any more: the nodes end it after so long, also if this process ends before its timer fires. */
  #expireIn(keptMs: number): void {
    this.#lease.stopExtending();
    const { nodes } = this.#shared;
    const names = new NodeNames(nodes.options.keyPrefix, this.call.keys);
    const keepMs = Math.ceil(keptMs + driftMs(keptMs, nodes.options.driftFactor));
    const request = { names, holder: this.grant.holder, granted: true, pass: false, keepMs };
    nodes.release(this.mayHold, request, nodes.clock.nowMs + keepMs);
  }

  /** The holder has released it, and sections that joined it still run. */
  #keepForSections(): void {
    const sinceMs = this.#shared.nodes.clock.nowMs;
    this.#setTimer(this.call.settings.ttlMs, () => {
      const { events, clock } = this.#shared.nodes;
      const [sections, delayMs] = [this.#handles.length, clock.nowMs - sinceMs];
      events.emit({ type: 'release-delayed', ...this.about, sections, sinceMs: delayMs });
    });
  }

  #free(isReleased: boolean): void {
    const { nodes, keys } = this.#shared;
    this.#state = 'over';
    // No extension may follow the release.
    this.#lease.end();
    if (isReleased) this.#release = new ReleaseRound(this.#shared, this, nodes.clock.nowMs);
    if (this.#timer !== undefined) nodes.alarms.cancel(this.#timer);
    keys.freed(this);
  }

  #setTimer(delayMs: number, onDeadline: () => void): void {
    const { alarms, clock } = this.#shared.nodes;
    if (this.#timer !== undefined) alarms.cancel(this.#timer);
    this.#timer = new Alarm(onDeadline);
    alarms.set(this.#timer, delayMs, clock.nowMs);
  }
}

/** One use of a lock: by its holder, or by a section that joined it. The lock is held until the last use has ended. */
export class LockHandle implements Lock {
  /** The error that says why it was lost while in use. */
  lossError: LockLostError | undefined = undefined;
  readonly #lock: HeldLock;
  #abort: AbortController | undefined;
  #isReleased = false;

  constructor(
    lock: HeldLock,
    readonly keys: readonly string[],
  ) {
    this.#lock = lock;
  }

  get slot(): number | undefined {
    return slotOf(this.keys[0]!);
  }

  get token(): FencingToken {
    return this.#lock.token;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      this.notifyLoss();
    }
    return this.#abort.signal;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  get remainingMs(): number {
    return this.#isReleased || this.lossError !== undefined ? 0 : this.#lock.validityMs;
  }

  ensure(ms = 0): void {
    this.#lock.noticeEnd();
    if (this.lossError !== undefined) throw sameLoss(this.lossError);
    if (this.#isReleased)
      throw new FencedUsageError(
        `Lock ${quoteKeys(this.keys)} was used after its release. Use it inside the locked work, or acquire the lock again.`,
        this.keys,
      );
    this.#lock.ensureLeft(ms);
  }

  async extend(): Promise<void> {
    this.ensure();
    await this.#lock.extendNow();
    this.ensure();
  }

  release(): Promise<void> {
    this.end();
    return this.#lock.whenNotified() ?? Promise.resolve();
  }

  /** Ends it as `release` does, and waits for nothing. */
  end(): void {
    this.#lock.noticeEnd();
    this.#isReleased = true;
    this.#lock.leave(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Returns what a log shows of it. */
  toJSON(): object {
    const { keys, token, isHeld } = this;
    return { keys, token: token.value, holder: token.holder, isHeld };
  }

  /** The lock ended before this use of it did, which `lossError` says already. */
  notifyLoss(): void {
    if (this.lossError !== undefined) this.#abort?.abort(sameLoss(this.lossError));
  }

  /** Whether it holds the key, or a slot of it. */
  covers(key: string): boolean {
    const { keys } = this.#lock.call;
    const holdsKey =
      keys.includes(key) || (this.slot !== undefined && keys[0] === slotKey(key, this.slot));
    return this.isHeld && holdsKey;
  }

  join(keys: readonly string[]): LockHandle {
    return this.#lock.join(this.slot === undefined ? keys : this.keys);
  }
}
