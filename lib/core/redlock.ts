import type { Environment } from './environment.ts';
import {
  FencedUsageError,
  LockBusyError,
  QuorumUnavailableError,
  RedlockClosedError,
  isOf,
} from './errors.ts';
import type { HeldLock } from './holding/held-lock.ts';
import { issueToken } from './holding/issue-token.ts';
import { JoinedLock } from './holding/joined-lock.ts';
import { KeyTable } from './holding/key-table.ts';
import { currentLock, enclosingLocks, enclosingSection, runSection } from './holding/reentrancy.ts';
import type { Lock } from './lock.ts';
import { inspectKey } from './nodes/inspect.ts';
import type { LockInspection } from './nodes/inspect.ts';
import type { LockNode } from './nodes/lock-node.ts';
import { NodeSet } from './nodes/node-set.ts';
import { normalizeKeys } from './options/lock-keys.ts';
import type { AcquireOptions, RedlockOptions, WithLockOptions } from './options/options.ts';
import { kindOf } from './options/option-names.ts';
import { OF_ACQUIRE, resolveAcquire, resolveOptions } from './options/resolve-options.ts';
import type { OptionsOfCall, ResolvedAcquire, ResolvedOptions } from './options/resolve-options.ts';
import { systemEnvironment } from './system-environment.ts';
import type { TokenSource } from './fencing-token.ts';
import { Acquisition } from './waiting/acquisition.ts';
import type { WaitingRoom } from './waiting/acquisition.ts';
import { Admission } from './waiting/admission.ts';
import { cancelOnAbort, ignoreAbort } from './waiting/shared-abort.ts';

/** No longer does a try without a quorum count: where un-ready means no calls, only time can end that. */
const LONGEST_OUTAGE_MS = 10_000;

/**
 * Mutual exclusion and fencing tokens over N independent nodes: Redlock with strict ballots (docs/internals/protocol.md).
 *
 * `open` it once, then acquire; `drain` and `close` end it.
 */
export class Redlock {
  /** As they apply, with all defaults filled in. */
  readonly options: ResolvedOptions;
  readonly #set: NodeSet;
  readonly #room: WaitingRoom;
  /** In no order. No Set, for the reason that KeyTable gives. */
  readonly #acquisitions: Acquisition[] = [];
  readonly #onReadiness = new Set<() => void>();
  readonly #onReleased = new Set<() => void>();
  readonly #onClose = new Set<() => void>();
  #arrivals = 0;
  #closing = false;
  #closed: Promise<void> | undefined;

  /** @throws RedlockConfigError */
  constructor(
    nodes: readonly LockNode[],
    options: RedlockOptions = {},
    environment: Environment = systemEnvironment,
  ) {
    this.options = resolveOptions(options, nodes.length);
    this.#set = new NodeSet(nodes, this.options, environment, {
      joined: () => {
        this.#room.table.hintAll();
        this.#lookForReadiness();
      },
      turn: (session, lockName, keptMs) => this.#room.table.turn(session, lockName, keptMs),
      listening: (session) => this.#room.table.listening(session),
      clockMoved: () => {
        for (const lock of this.#room.table.locks()) lock.extendSoon();
      },
    });
    this.#room = {
      set: this.#set,
      table: new KeyTable(this.#set),
      admission: new Admission(this.options.concurrentTries),
      onEnd: this.#lookForReleased,
    };
  }

  /** Connects to every node and joins. Call once, before anything else. */
  open(): void {
    this.#set.open();
  }

  /** In how many ms a quorum may vote: 0 = now, infinite while none has joined. */
  get votesInMs(): number {
    return Math.max(0, this.#set.quorumVotesAtMs - this.#set.nowMs);
  }

  /** Why a node has not joined; undefined when it has. */
  problemOf(node: LockNode): string | undefined {
    const session = this.#set.sessions.find((each) => each.node === node);
    return session?.state === 'voting' ? undefined : session?.problem;
  }

  /** Whether it refuses new locks, for good. */
  get isClosing(): boolean {
    return this.#closing;
  }

  /** See `LockService.ready`. */
  async ready(timeoutMs: number): Promise<boolean> {
    const untilMs = this.#set.nowMs + timeoutMs;
    for (let leftMs = timeoutMs; ; leftMs = untilMs - this.#set.nowMs) {
      // A remembered outage ends by time alone; nothing else would look then.
      const lookInMs = Math.min(leftMs, this.#outageMs > 0 ? this.#outageMs : Infinity);
      await this.#until(this.#onReadiness, lookInMs, () => this.#closing || this.#isReady);
      if (this.#isReady || this.#closing || this.#set.nowMs >= untilMs) return this.#isReady;
    }
  }

  get #isReady(): boolean {
    return !this.#closing && this.#set.hasQuorum && this.#outageMs <= 0;
  }

  /** How long the latest try still counts if it found no quorum. */
  get #outageMs(): number {
    const { outageAtMs, nowMs } = this.#set;
    return outageAtMs + Math.min(this.options.maxTtlMs, LONGEST_OUTAGE_MS) - nowMs;
  }

  /** Keys of locks that are in use. */
  get heldKeys(): readonly string[] {
    return [...this.#room.table.locks()].flatMap(({ state, keys }) =>
      state === 'granted' || state === 'kept' ? [] : keys,
    );
  }

  /** How many keys this process knows something of: held, waited for, or remembered for a while. */
  get keyCount(): number {
    return this.#room.table.size;
  }

  /** See `LockService.acquire`. */
  acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock> {
    try {
      return this.#acquireHandle(normalizeKeys(keys), options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #acquireHandle(names: readonly string[], options: AcquireOptions | undefined): Promise<Lock> {
    const settings = resolveAcquire(this.options, options, OF_ACQUIRE);
    enclosingSection(this, names);
    return this.#acquire(names, settings, options?.signal);
  }

  /** See `LockService.tryAcquire`. */
  async tryAcquire(
    keys: string | readonly string[],
    options: AcquireOptions = {},
  ): Promise<Lock | null> {
    const names = normalizeKeys(keys);
    try {
      const isGiven = typeof options === 'object' && !Array.isArray(options);
      const once = isGiven && options?.wait === undefined ? { ...options, wait: 0 } : options;
      return await this.#acquireHandle(names, once);
    } catch (error) {
      if (error instanceof LockBusyError && isOf(names, error)) return null;
      throw error;
    }
  }

  /** See `LockService.withLock`. `of` says what the layer above takes. */
  async withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: WithLockOptions,
    of?: OptionsOfCall,
  ): Promise<Result> {
    const names = normalizeKeys(keys);
    if (typeof work !== 'function')
      throw new FencedUsageError(
        `The second argument of withLock must be a function, not ${kindOf(work)}: withLock(key, async (lock) => {}). Nothing was locked.`,
      );
    const settings = resolveAcquire(this.options, options, of);
    const enclosing = enclosingSection(this, names, options?.nested);
    if (enclosing !== undefined) {
      const joined = new JoinedLock(enclosing.lock, names);
      return runSection(this, enclosing.lock, joined, work, options, of?.checkResult);
    }
    const lock = await this.#acquire(names, settings, options?.signal);
    return runSection(this, lock, lock, work, options, of?.checkResult);
  }

  /** See `LockService.current`. */
  current(): Lock | undefined {
    return currentLock(this);
  }

  /** See `LockService.holds`. */
  holds(keys: string | readonly string[]): boolean {
    try {
      return enclosingSection(this, normalizeKeys(keys), 'join') !== undefined;
    } catch {
      return false;
    }
  }

  /**
   * Makes the next token of these keys one above `token`, which a resource has seen. Nodes refuse what is more than a day ahead of
   * them: then it is not.
   */
  exceed(keys: readonly string[], token: number): void {
    this.#room.table.sawToken(normalizeKeys(keys), token);
  }

  /** See `LockService.inspect`. */
  async inspect(key: string): Promise<LockInspection> {
    const [name, ...others] = normalizeKeys(key);
    if (others.length > 0)
      throw new FencedUsageError(
        'inspect looks at one key: call it for each of them.',
        [key].flat(),
      );
    return inspectKey(this.#set, name ?? key);
  }

  /**
   * Refuses new locks from now on, waits up to `timeoutMs` until held ones are released, then ends the rest as lost. Sections
   * that are waited for may take further locks: they could not end well without.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#closing = true;
    this.#lookForReadiness();
    this.#cancel(({ enclosing }) => enclosing === undefined);
    const { table } = this.#room;
    const isReleased = () => this.#set.openReleases === 0;
    const isUnused = () => [...table.locks()].every(({ state }) => state === 'kept');
    await this.#until(
      this.#onReleased,
      timeoutMs,
      () => this.#acquisitions.length === 0 && isReleased() && isUnused(),
    );
    this.#cancel(() => true);
    const ended = [...table.locks()].map((lock) => {
      lock.lost('closed', []);
      return lock.notified;
    });
    await Promise.all(ended);
    // Ends within a node timeout, because each release does; the limit is only a fallback.
    await this.#until(this.#onReleased, this.options.maxTtlMs, isReleased);
  }

  #cancel(isMeant: (acquisition: Acquisition) => boolean): void {
    for (const acquisition of this.#acquisitions.filter(isMeant))
      acquisition.cancel(new RedlockClosedError(acquisition.keys));
  }

  /** `drain(0)`, then closes the nodes. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.drain(0);
    for (const giveUp of this.#onClose) giveUp();
    await this.#set.close();
  }

  /** No async function: thousands may wait, and each would keep its registers. */
  #acquire(
    keys: readonly string[],
    settings: ResolvedAcquire,
    signal: AbortSignal | undefined,
  ): Promise<HeldLock> {
    const enclosing = enclosingLocks(this);
    if (this.#closing && enclosing === undefined) throw new RedlockClosedError(keys);
    this.#arrivals += 1;
    const acquisition = new Acquisition(this.#room, keys, settings, this.#arrivals, enclosing);
    acquisition.signal = signal;
    if (signal !== undefined) cancelOnAbort(signal, acquisition);
    acquisition.slot = this.#acquisitions.push(acquisition) - 1;
    return acquisition
      .run()
      .then(this.#granted.bind(this, acquisition), this.#refuse.bind(this, acquisition));
  }

  /** In the async context of the caller. */
  #granted(acquisition: Acquisition, lock: HeldLock): HeldLock | Promise<HeldLock> {
    const { tokenSource } = this.options;
    try {
      if (acquisition.cancelled !== undefined) throw acquisition.cancelled.error;
      if (tokenSource !== undefined) return this.#issueToken(acquisition, lock, tokenSource);
      lock.start();
      if (this.#set.hasOrdinaryListener) this.#reportGrant(lock, acquisition);
    } catch (error) {
      return this.#takeBack(acquisition, lock, error);
    }
    this.#ended(acquisition);
    return lock;
  }

  async #issueToken(acquisition: Acquisition, lock: HeldLock, source: TokenSource) {
    try {
      lock.watch();
      lock.start(await issueToken(source, lock, acquisition.whenCancelled()));
      if (this.#set.hasOrdinaryListener) this.#reportGrant(lock, acquisition);
    } catch (error) {
      return this.#takeBack(acquisition, lock, error);
    }
    this.#ended(acquisition);
    return lock;
  }

  /** Whatever went wrong between the last vote and the hand-over: nothing may be held. */
  async #takeBack(acquisition: Acquisition, lock: HeldLock, error: unknown): Promise<never> {
    await lock.release();
    return this.#refuse(acquisition, error);
  }

  #refuse(acquisition: Acquisition, error: unknown): never {
    try {
      throw this.#reported(acquisition.cancelled?.error ?? error, acquisition.keys);
    } finally {
      this.#ended(acquisition);
    }
  }

  /** With its lock, or without one. */
  #ended(acquisition: Acquisition): void {
    // The last one takes its place.
    const last = this.#acquisitions.pop()!;
    last.slot = acquisition.slot;
    if (last !== acquisition) this.#acquisitions[last.slot] = last;
    if (acquisition.signal !== undefined) ignoreAbort(acquisition.signal, acquisition);
    if (this.#onReadiness.size > 0) this.#lookForReadiness();
    if (this.#closing) this.#lookForReleased();
  }

  #reportGrant({ keys, token }: HeldLock, { waitedMs, tries }: Acquisition): void {
    this.#set.emit({ type: 'acquired', keys, token: token.value, waitedMs, tries });
  }

  /** One of another call, which a user passed on, stays as it is. */
  #reported(error: unknown, keys: readonly string[]): unknown {
    if (!isOf(keys, error)) return error;
    // It was made where others woke the caller: here its stack leads to the call.
    Error.captureStackTrace(error);
    if (error instanceof LockBusyError)
      this.#set.emit({ type: 'busy', keys, waitedMs: error.waitedMs });
    else if (error instanceof QuorumUnavailableError) {
      this.#set.emit({ type: 'unavailable', keys, waitedMs: error.waitedMs, causes: error.causes });
    }
    return error;
  }

  #lookForReadiness(): void {
    for (const look of this.#onReadiness) look();
  }

  readonly #lookForReleased = (): void => {
    for (const look of this.#onReleased) look();
  };

  /** Resolves true when `condition` holds, looking whenever one of `listeners` is called; false after `timeoutMs` or when the service closes. */
  #until(
    listeners: Set<() => void>,
    timeoutMs: number,
    condition: () => boolean,
  ): Promise<boolean> {
    if (condition()) return Promise.resolve(true);
    const { timers } = this.#set.environment;
    const afterPoll = (callback: () => void) => this.#set.environment.afterPoll(callback);
    return new Promise((resolve) => {
      const finish = (met: boolean) => {
        timers.clear(timer);
        listeners.delete(look);
        this.#onClose.delete(giveUp);
        resolve(met);
      };
      const giveUp = () => finish(false);
      const look = () => void (condition() && finish(true));
      // After a blocked event loop what it waits for may be there, unread.
      const timer = timers.set(() => afterPoll(() => finish(condition())), timeoutMs);
      listeners.add(look);
      this.#onClose.add(giveUp);
    });
  }
}
