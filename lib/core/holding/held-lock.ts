import type { Granted } from '../voting/attempt.ts';
import type { TimerHandle } from '../environment.ts';
import { FencedUsageError, LockLostError, QuorumUnavailableError, quoteKeys } from '../errors.ts';
import type { LockLossReason, NodeCause } from '../errors.ts';
import type { FencingToken } from '../fencing-token.ts';
import type { HeldLocks } from './held-locks.ts';
import { Lease } from './lease.ts';
import type { LeaseOwner } from './lease.ts';
import type { Lock } from '../lock.ts';
import type { Quorum } from '../nodes/node-set.ts';
import { releaseGranted } from './release.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';

/** A lock from its grant to its end. */
export class HeldLock implements Lock, LeaseOwner {
  readonly keys: readonly string[];
  readonly holder: string;
  readonly ballot: number;
  readonly #startedAtMs: number;
  readonly #quorum: Quorum;
  readonly #held: HeldLocks;
  readonly #settings: ResolvedAcquire;
  readonly #lease: Lease;
  #token: FencingToken | undefined;
  #abort: AbortController | undefined;
  #lossError: LockLostError | undefined;
  #released: Promise<void> | undefined;
  /** Runs while a released lock is kept for `minHold`. */
  #keepTimer: TimerHandle;
  #mayHold: number;

  constructor(
    quorum: Quorum,
    held: HeldLocks,
    settings: ResolvedAcquire,
    keys: readonly string[],
    grant: Granted,
  ) {
    this.keys = keys;
    this.holder = grant.holder;
    this.ballot = grant.ballot;
    this.#mayHold = grant.mayHold;
    this.#startedAtMs = grant.startedAtMs;
    this.#quorum = quorum;
    this.#held = held;
    this.#settings = settings;
    this.#lease = new Lease(quorum, this, grant.validUntilMs);
    held.add(this);
  }

  get ttlMs(): number {
    return this.#settings.ttlMs;
  }

  get nodeTimeoutMs(): number {
    return this.#settings.nodeTimeoutMs;
  }

  get token(): FencingToken {
    if (this.#token === undefined)
      throw new FencedUsageError('The lock has no token yet.', this.keys);
    return this.#token;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#lossError !== undefined) this.#abort.abort(this.#lossError);
    }
    return this.#abort.signal;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  get remainingMs(): number {
    return this.#released === undefined ? this.#lease.remainingMs : 0;
  }

  /** Why it was lost; undefined while held or when released. */
  get lossError(): LockLostError | undefined {
    if (this.#released === undefined && this.#lossError === undefined && !this.isHeld)
      this.lost('expired', []);
    return this.#lossError;
  }

  /** Released by its holder; the nodes may still keep it for `minHold`. */
  get isReleased(): boolean {
    return this.#released !== undefined;
  }

  /** How long others in this process need not ask for it: also while a released lock is kept for `minHold`. */
  get occupiedMs(): number {
    return this.#lease.remainingMs;
  }

  /** The grant is complete: hands the lock to its holder. */
  start(token: FencingToken): void {
    this.#token = token;
    if (this.#settings.extend) this.#lease.keepExtended(this.#startedAtMs);
    else this.#lease.watch();
  }

  /** Before `start`: it can be lost, and is not extended. */
  watch(): void {
    this.#lease.watch();
  }

  ensure(ms = 0): void {
    // A lock that was lost says so, also when it has been released since.
    if (this.#lossError !== undefined) throw this.#lossError;
    if (this.#released !== undefined) {
      throw new FencedUsageError(
        `Lock ${quoteKeys(this.keys)} is used after its release.`,
        this.keys,
      );
    }
    const { lossError } = this;
    if (lossError !== undefined) throw lossError;
    // Not `<`: what is not a number must not pass.
    if (!(this.remainingMs >= ms)) throw this.#lossErrorOf('short', []);
  }

  async extend(): Promise<void> {
    this.ensure();
    const outcome = await this.#lease.extendNow();
    this.ensure();
    if (outcome.kind === 'extended') return;
    const { votesNeeded, sessions } = this.#quorum;
    throw new QuorumUnavailableError(this.keys, 0, votesNeeded, sessions.length, outcome.causes());
  }

  release(): Promise<void> {
    if (this.#released === undefined) {
      const lost = this.lossError !== undefined;
      this.#released = lost ? Promise.resolve() : this.#releaseOrKeep();
    }
    return this.#released;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  lost(reason: LockLossReason, causes: readonly NodeCause[]): void {
    if (this.#lossError !== undefined) return;
    // A lock that is only kept for minHold has no holder who could lose it; its keys die with their ttl.
    if (this.#released !== undefined) {
      this.#quorum.environment.timers.clear(this.#keepTimer);
      this.#forget();
      return;
    }
    const error = this.#lossErrorOf(reason, causes);
    this.#lossError = error;
    this.#forget();
    this.#quorum.emit({ type: 'lost', keys: this.keys, token: this.#tokenValue, error });
    this.#abort?.abort(error);
    void this.#releaseOnNodes();
  }

  asked(nodes: number): void {
    this.#mayHold |= nodes;
  }

  extended(remainingMs: number): void {
    if (!this.#quorum.hasListener) return;
    this.#quorum.emit({ type: 'extended', keys: this.keys, token: this.#tokenValue, remainingMs });
  }

  extensionFailed(remainingMs: number, causes: readonly NodeCause[]): void {
    this.#quorum.emit({
      type: 'extension-failed',
      keys: this.keys,
      token: this.#tokenValue,
      remainingMs,
      causes,
    });
  }

  get #tokenValue(): number {
    return this.#token?.value ?? this.ballot;
  }

  #lossErrorOf(reason: LockLossReason, causes: readonly NodeCause[]): LockLostError {
    return new LockLostError(this.keys, reason, this.#tokenValue, causes);
  }

  #releaseOrKeep(): Promise<void> {
    const heldMs = this.#quorum.nowMs - this.#startedAtMs;
    if (this.#quorum.hasListener) {
      this.#quorum.emit({ type: 'released', keys: this.keys, token: this.#tokenValue, heldMs });
    }
    const keepMs = this.#settings.minHoldMs - heldMs;
    if (keepMs <= 0) {
      this.#forget();
      return this.#releaseOnNodes();
    }
    this.#lease.stopExtending();
    this.#keepTimer = this.#quorum.environment.timers.set(
      () => {
        this.#forget();
        void this.#releaseOnNodes();
      },
      keepMs,
      true,
    );
    return Promise.resolve();
  }

  #forget(): void {
    this.#lease.end();
    this.#held.delete(this);
  }

  #releaseOnNodes(): Promise<void> {
    const { keys, holder } = this;
    const lock = { keys, holder, token: this.#tokenValue, mayHold: this.#mayHold };
    const done = releaseGranted(this.#quorum, lock, this.#settings, (listeners) =>
      this.#held.heard(this, listeners),
    );
    // The release is on its way on every connection, so whoever is next here can already ask.
    this.#held.released(this);
    return done;
  }
}
