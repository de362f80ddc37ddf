import type { Environment } from './environment.ts';
import {
  FencedUsageError,
  LockBusyError,
  QuorumUnavailableError,
  RedlockClosedError,
  isAbout,
  quoteKeys,
} from './errors.ts';
import type { Caller } from './events.ts';
import type { FencingToken } from './fencing-token.ts';
import type { HeldLock, LockHandle } from './holding/held-lock.ts';
import { issueToken } from './holding/issue-token.ts';
import { CALLED_BY, currentSection, enclosingHandle, runSection } from './holding/reentrancy.ts';
import type { CalledOptions } from './holding/reentrancy.ts';
import type { Lock, OwnLocks } from './lock.ts';
import { inspectKey, type LockInspection } from './nodes/inspect.ts';
import { listLocks, revokeKey, type LockList, type RevokedLock } from './nodes/operate.ts';
import type { LockNode } from './nodes/lock-node.ts';
import { NodeSet } from './nodes/node-set.ts';
import { stateOf, statusOf, type LockStatus } from './nodes/status.ts';
import { normalizeKeys, oneKey, refusedKeys, slotKey } from './options/lock-keys.ts';
import type { AcquireOptions, RedlockOptions, WithLockOptions } from './options/options.ts';
import { kindOf } from './options/option-names.ts';
import { ACQUIRE_RULES, resolveAcquire, resolveOptions } from './options/resolve-options.ts';
import type { CallRules, ResolvedAcquire, ResolvedOptions } from './options/resolve-options.ts';
import { systemEnvironment } from './system-environment.ts';
import { Floors } from './voting/floors.ts';
import { PermitNumbers } from './voting/permit-numbers.ts';
import { Acquisition } from './waiting/acquisition.ts';
import { Admission, type SharedByCallers } from './waiting/admission.ts';
import { Keys } from './waiting/keys.ts';
import { replacesOne } from './waiting/replacement.ts';
import { KnownProcesses } from './voting/known-processes.ts';
import { PermitAcquisition } from './waiting/permit-acquisition.ts';
import { cancel, cancelOnAbort, ignoreAbort, type Call } from './waiting/call.ts';

/** Mutual exclusion and fencing tokens over N independent nodes: Redlock with strict ballots (docs/internals/protocol.md). */
export class Redlock {
  readonly options: ResolvedOptions;
  readonly #nodes: NodeSet;
  readonly #shared: SharedByCallers;
  readonly #calls = new Set<Call>();
  /** These are called when something has changed: a node, a call or a lock. */
  readonly #watchers = new Set<() => void>();
  #arrivals = 0;
  /** It refuses new locks, for good. */
  isClosing = false;
  #closed: Promise<void> | undefined;

  /** @throws RedlockConfigError */
  constructor(
    nodes: readonly LockNode[],
    options: RedlockOptions = {},
    environment: Environment = systemEnvironment,
  ) {
    this.options = resolveOptions(options, nodes.length);
    this.#nodes = new NodeSet(nodes, this.options, environment, {
      joined: () => {
        this.#shared.keys.hintAll();
        this.#changed();
      },
      turn: (session, lockName, keptMs) => this.#shared.keys.turn(session, lockName, keptMs),
      listening: (session) => this.#shared.keys.listening(session),
      doubted: () => {
        for (const lock of this.#shared.keys.locks()) lock.proveOrEnd();
      },
    });
    this.#shared = {
      nodes: this.#nodes,
      keys: new Keys(this.#nodes),
      floors: new Floors(environment.clock),
      releases: new Set(),
      admission: new Admission(this.options.concurrentTries),
      processes: new KnownProcesses(this.#nodes),
      permits: new PermitNumbers(this.#nodes),
      onEnd: this.#changed,
    };
  }

  /** Connects to every node and joins. Call once, before anything else. */
  open(): void {
    this.#nodes.open();
  }

  /** The time in ms until a quorum may vote: 0 = now, infinite while none has joined. */
  get votesInMs(): number {
    return Math.max(0, this.#nodes.quorum.votesAtMs - this.#nodes.clock.nowMs);
  }

  problemOf(node: LockNode): string | undefined {
    const session = this.#nodes.sessions.find((each) => each.node === node);
    return session?.state === 'voting' ? undefined : session?.health.problem;
  }

  async ready(timeoutMs: number): Promise<boolean> {
    const { sessions, clock } = this.#nodes;
    const untilMs = clock.nowMs + timeoutMs;
    for (;;) {
      const { nowMs } = clock;
      // A restart guard ends by time alone, and nothing else would look then.
      const guards = sessions.map(({ votesAtMs }) => votesAtMs).filter((atMs) => atMs > nowMs);
      const lookInMs = Math.ceil(Math.min(untilMs, ...guards) - nowMs);
      await this.#until(lookInMs, () => this.isClosing || this.#isReady);
      if (this.#isReady || this.isClosing || clock.nowMs >= untilMs) return this.#isReady;
    }
  }

  get #isReady(): boolean {
    return !this.isClosing && this.#votesMissing === 0;
  }

  get #votesMissing(): number {
    const { sessions, clock } = this.#nodes;
    const voting = sessions.filter((session) => stateOf(session, clock.nowMs) === 'voting');
    return Math.max(0, this.options.quorum - voting.length);
  }

  held(): OwnLocks {
    const { nowMs } = this.#nodes.clock;
    const held = [...this.#shared.keys.locks()].flatMap(({ report }) => report ?? []);
    const waiting = [...this.#calls].flatMap(({ keys, caller, stage }) =>
      stage === undefined ? [] : [{ keys, ...caller, waitedMs: nowMs - stage.arrivedAtMs }],
    );
    return {
      held: held.sort((one, other) => other.heldMs - one.heldMs),
      waiting: waiting.sort((one, other) => other.waitedMs - one.waitedMs),
    };
  }

  status(): LockStatus {
    const { sessions, clock } = this.#nodes;
    const { nowMs } = clock;
    const nodes = sessions.map((session) => statusOf(session, nowMs));
    const { held, waiting } = this.held();
    return {
      ready: this.#isReady,
      degraded: this.#isReady && nodes.some(({ state }) => state !== 'voting'),
      votesMissing: this.#votesMissing,
      nodes,
      held: held.length,
      waiting: waiting.length,
    };
  }

  /** The number of keys that this process knows something of: held, waited for, or remembered for a while. */
  get keyCount(): number {
    return this.#shared.keys.size;
  }

  acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock> {
    try {
      const names = normalizeKeys(keys);
      const settings = resolveAcquire(this.options, options, ACQUIRE_RULES);
      enclosingHandle(this, names, 'never');
      return this.#acquire(names, settings, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async tryAcquire(
    keys: string | readonly string[],
    options?: AcquireOptions,
  ): Promise<Lock | null> {
    const names = normalizeKeys(keys);
    const settings = resolveAcquire(this.options, options, ACQUIRE_RULES);
    const once = options?.wait === undefined ? { ...settings, waitMs: 0 } : settings;
    try {
      enclosingHandle(this, names, 'never');
      return await this.#acquire(names, once, options);
    } catch (error) {
      if (error instanceof LockBusyError && isAbout(names, error)) return null;
      throw error;
    }
  }

  /** Like the methods around it, see `LockService`. `rules` are those of the layer above. */
  async withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: WithLockOptions,
    rules?: CallRules,
  ): Promise<Result> {
    const names = normalizeKeys(keys);
    if (typeof work !== 'function')
      throw new FencedUsageError(
        `The second argument of withLock must be a function, not ${kindOf(work)}. Nothing was locked.`,
      );
    const settings = resolveAcquire(this.options, options, rules);
    const enclosing = enclosingHandle(this, names, options?.nested);
    if (enclosing !== undefined) refuseOther(enclosing, names, settings);
    const handle = enclosing?.join(names) ?? (await this.#acquire(names, settings, options));
    return runSection(this, handle, work, options, rules?.checkResult);
  }

  current(): Lock | undefined {
    return currentSection(this)?.handle;
  }

  /** The method under `@Fenced` in whose section this async context is. */
  get caller(): Caller | undefined {
    return currentSection(this)?.calledBy;
  }

  holds(keys: string | readonly string[]): boolean {
    try {
      return enclosingHandle(this, normalizeKeys(keys), 'join') !== undefined;
    } catch {
      return false;
    }
  }

  /**
   * Makes the next token of these keys one above `token`, which a resource has seen. Nodes refuse what is more than a day ahead of
   * them: then it is not.
   */
  raiseFloor(keys: readonly string[], token: number): void {
    this.#shared.floors.raise(keys, token);
  }

  async inspect(key: string): Promise<LockInspection> {
    return inspectKey(this.#nodes, oneKey(key));
  }

  async revoke(key: string, by?: string, reason?: string): Promise<RevokedLock> {
    return revokeKey(this.#nodes, oneKey(key), by, reason);
  }

  list(keysBegin?: string): Promise<LockList> {
    return listLocks(this.#nodes, keysBegin);
  }

  /**
   * Refuses new locks from now on, waits up to `timeoutMs` until held ones are released, then ends the rest as lost. Sections
   * that are waited for may take further locks: they could not end well without.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.isClosing = true;
    this.#changed();
    this.#cancel(({ isInside }) => !isInside);
    const { keys, releases } = this.#shared;
    const isReleased = () => releases.size === 0;
    const isUnused = () => [...keys.locks()].every(({ report }) => !report?.sections);
    await this.#until(timeoutMs, () => this.#calls.size === 0 && isReleased() && isUnused());
    this.#cancel(() => true);
    for (const lock of keys.locks()) lock.lost('closed', []);
    // Ends within a node timeout, because each release does; the limit is only a fallback.
    await this.#until(this.options.maxTtlMs, isReleased);
  }

  #cancel(isMeant: (call: Call) => boolean): void {
    for (const call of [...this.#calls].filter(isMeant))
      cancel(call, new RedlockClosedError(call.keys));
  }

  /** `drain(0)`, then closes the nodes. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.drain(0).then(() => this.#nodes.close());
    return this.#closed;
  }

  async #acquire(
    keys: readonly string[],
    settings: ResolvedAcquire,
    options: CalledOptions | undefined,
  ): Promise<LockHandle> {
    const signal = options?.signal;
    const isInside = currentSection(this, ({ isHeld }) => isHeld) !== undefined;
    if (this.isClosing && !isInside) throw new RedlockClosedError(keys);
    const { permits } = settings;
    if (permits !== undefined) checkOneKey(keys);
    // The name of the last slot is the longest.
    const locked = permits === undefined ? keys : [slotKey(keys[0]!, permits - 1)];
    const refusal = this.#nodes.refusal(locked);
    if (refusal !== undefined) throw refusedKeys(refusal, quoteKeys(keys));
    if (settings.replaces && keys.length > 1) throw replacesOne(keys);
    this.#arrivals += 1;
    const caller = options?.[CALLED_BY];
    // The newest of those that replace others goes first.
    const arrival = settings.replaces ? -this.#arrivals : this.#arrivals;
    const call: Call = { keys, settings, caller, arrival, isInside };
    const acquisition =
      permits === undefined
        ? new Acquisition(this.#shared, call)
        : new PermitAcquisition(this.#shared, call);
    if (signal !== undefined) cancelOnAbort(signal, call);
    this.#calls.add(call);
    let lock: HeldLock | undefined;
    try {
      lock = await acquisition.run();
      await this.#handOver(lock, acquisition);
      return lock.handle;
    } catch (error) {
      // Whatever went wrong between the last vote and the hand-over: nothing may be held.
      lock?.handle.end();
      throw this.#refused(call, error);
    } finally {
      this.#calls.delete(call);
      if (signal !== undefined) ignoreAbort(signal, call);
      this.#changed();
    }
  }

  /** Gives a lock that was granted to its caller, with the token of the source where there is one. */
  async #handOver(lock: HeldLock, { call, arrivedAtMs, tries }: Acquisition): Promise<void> {
    const { tokenSource } = this.options;
    let token: FencingToken | undefined;
    if (tokenSource !== undefined && call.cancelled === undefined) {
      call.stage = { arrivedAtMs, cancelled: () => lock.lost('closed', []) };
      token = await issueToken(tokenSource, lock);
    }
    if (call.cancelled !== undefined) throw call.cancelled.error;
    lock.start(token);
    const { events, clock } = this.#nodes;
    if (!events.takesOrdinary) return;
    const { roundTripMs } = lock.grant;
    const waitedMs = clock.nowMs - arrivedAtMs;
    events.emit({ type: 'acquired', ...lock.about, waitedMs, tries, roundTripMs });
  }

  /** Returns the error of a call that gets no lock. */
  #refused({ keys, caller, cancelled }: Call, reason: unknown): unknown {
    const error = cancelled?.error ?? reason;
    // The error of another call, which a user passed on, stays as it is.
    if (!isAbout(keys, error)) return error;
    // The error was made where others woke the caller: here its stack leads to the call.
    Error.captureStackTrace(error);
    const { events } = this.#nodes;
    if (error instanceof LockBusyError)
      events.emit({ type: 'busy', keys, ...caller, waitedMs: error.waitedMs });
    if (error instanceof QuorumUnavailableError) {
      const { waitedMs, causes } = error;
      events.emit({ type: 'unavailable', keys, ...caller, waitedMs, causes });
    }
    return error;
  }

  readonly #changed = (): void => {
    for (const look of this.#watchers) look();
  };

  /** Resolves when `condition` holds, or after `timeoutMs`. */
  #until(timeoutMs: number, condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    const { timers } = this.#nodes.environment;
    return new Promise((resolve) => {
      const finish = () => {
        timers.clear(timer);
        this.#watchers.delete(look);
        resolve();
      };
      const look = () => void (condition() && finish());
      // After a blocked event loop the change that it waits for may be there, unread.
      const timer = timers.set(() => this.#nodes.environment.afterPoll(finish), timeoutMs);
      this.#watchers.add(look);
    });
  }
}

/** A limit of several keys at once would need a slot of each, and no single token would cover them. */
function checkOneKey(keys: readonly string[]): void {
  if (keys.length === 1) return;
  throw new FencedUsageError(
    `The option permits is for one key, and this call has ${keys.length}: ${quoteKeys(keys)}. Nest one call in the other, in the same order everywhere. Nothing was locked.`,
    keys,
  );
}

/** Refuses a call that would join work with another limit: to have the key alone, and to have a permit of it, are different locks. */
function refuseOther(
  { slot }: LockHandle,
  keys: readonly string[],
  { permits }: ResolvedAcquire,
): void {
  if ((slot === undefined) === (permits === undefined)) return;
  const [has, wants] = slot === undefined ? ['without', 'with'] : ['with', 'without'];
  throw new FencedUsageError(
    `This call asks for ${quoteKeys(keys)} ${wants} permits, inside of work that holds it ${has}. Give both the same option, or lock two keys. Nothing was locked.`,
    keys,
  );
}
