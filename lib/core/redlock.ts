import { createArena } from './waiting/arena.ts';
import type { Arena } from './waiting/arena.ts';
import { Contender } from './waiting/acquisition.ts';
import type { Environment } from './environment.ts';
import { LockBusyError, QuorumUnavailableError, RedlockClosedError } from './errors.ts';
import { FencingToken } from './fencing-token.ts';
import { HeldLock } from './holding/held-lock.ts';
import { inspectKey } from './nodes/inspect.ts';
import type { LockInspection } from './nodes/inspection.ts';
import { issueToken } from './holding/issue-token.ts';
import { JoinedLock } from './holding/joined-lock.ts';
import { currentLock, enclosingLock } from './holding/lock-context.ts';
import { normalizeKeys } from './options/lock-keys.ts';
import type { LockNode } from './nodes/lock-node.ts';
import type { Lock } from './lock.ts';
import { NodeSession } from './nodes/node-session.ts';
import type { NodeSessionListener } from './nodes/node-session.ts';
import { sessionSettings } from './nodes/session-settings.ts';
import type { AcquireOptions, RedlockOptions, WithLockOptions } from './options/options.ts';
import { resolveAcquire, resolveOptions } from './options/resolve-options.ts';
import type { ResolvedOptions } from './options/resolve-options.ts';
import { runWithLock } from './holding/run-with-lock.ts';
import { systemEnvironment } from './system-environment.ts';

/**
 * Mutual exclusion and fencing tokens over N independent nodes: Redlock with strict ballots (docs/protocol.md).
 *
 * `open` it once, then acquire; `drain` and `close` end it.
 */
export class Redlock {
  /** With every default filled in. */
  readonly options: ResolvedOptions;
  readonly #arena: Arena;
  readonly #contenders = new Set<Contender>();
  readonly #onJoined = new Set<() => void>();
  readonly #onReleased = new Set<() => void>();
  readonly #onClose = new Set<() => void>();
  #closing = false;
  #closed: Promise<void> | undefined;

  /** @throws RedlockConfigError */
  constructor(
    nodes: readonly LockNode[],
    options: RedlockOptions = {},
    environment: Environment = systemEnvironment,
  ) {
    this.options = resolveOptions(options, nodes.length);
    const sessions = this.#sessions(nodes, environment);
    this.#arena = createArena(sessions, this.options, environment, () => {
      for (const look of this.#onReleased) look();
    });
  }

  /** Connects to every node and joins. Call once, before anything else. */
  open(): void {
    for (const session of this.#arena.quorum.sessions) session.open();
  }

  /** Resolves true as soon as a quorum of nodes has joined (they may still be in quarantine), false after `timeoutMs`. */
  ready(timeoutMs: number): Promise<boolean> {
    return this.#until(
      this.#onJoined,
      timeoutMs,
      () => this.#arena.quorum.joinedCount >= this.options.quorum,
    );
  }

  /** See `LockService.acquire`. */
  async acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock> {
    const names = normalizeKeys(keys);
    const enclosing = enclosingLock(this, names);
    if (enclosing !== undefined) return new JoinedLock(enclosing, names);
    return this.#acquire(names, options);
  }

  /** See `LockService.tryAcquire`. */
  async tryAcquire(
    keys: string | readonly string[],
    options?: AcquireOptions,
  ): Promise<Lock | null> {
    try {
      return await this.acquire(keys, { ...options, wait: options?.wait ?? 0 });
    } catch (error) {
      if (error instanceof LockBusyError) return null;
      throw error;
    }
  }

  /** See `LockService.withLock`. */
  async withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: WithLockOptions,
  ): Promise<Result> {
    const names = normalizeKeys(keys);
    const enclosing = enclosingLock(this, names);
    if (enclosing !== undefined)
      return runWithLock(this, enclosing, new JoinedLock(enclosing, names), work, options);
    const lock = await this.#acquire(names, options);
    return runWithLock(this, lock, lock, work, options);
  }

  /** See `LockService.current`. */
  current(): Lock | undefined {
    return currentLock(this);
  }

  /** See `LockService.holds`. */
  holds(keys: string | readonly string[]): boolean {
    try {
      return enclosingLock(this, normalizeKeys(keys)) !== undefined;
    } catch {
      return false;
    }
  }

  /** What the nodes know of one key now; for people, not for decisions. Waits at most one node timeout. */
  async inspect(key: string): Promise<LockInspection> {
    const [name] = normalizeKeys(key);
    return inspectKey(this.#arena.quorum, name ?? key);
  }

  /** Refuses new locks from now on, waits up to `timeoutMs` until held ones are released, then ends the rest as lost. */
  async drain(timeoutMs: number): Promise<void> {
    this.#closing = true;
    for (const contender of this.#contenders)
      contender.cancel(new RedlockClosedError(contender.keys));
    const { held } = this.#arena;
    const over = () => held.isIdle && this.#contenders.size === 0;
    await this.#until(this.#onReleased, timeoutMs, over);
    const ended = [...held.all()].map((lock) => {
      lock.lost('closed', []);
      return lock.release();
    });
    await Promise.all(ended);
  }

  /** `drain(0)`, then closes the nodes. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.drain(0);
    const { quorum, hints } = this.#arena;
    hints.close();
    for (const giveUp of this.#onClose) giveUp();
    await Promise.all(quorum.sessions.map((session) => session.close()));
    quorum.close();
  }

  async #acquire(keys: readonly string[], options: AcquireOptions | undefined): Promise<HeldLock> {
    const settings = resolveAcquire(this.options, options);
    const signal = options?.signal;
    signal?.throwIfAborted();
    if (this.#closing) throw new RedlockClosedError(keys);
    const { quorum, held } = this.#arena;
    const contender = new Contender(this.#arena, keys, settings);
    const stopListening = contender.cancelOn(signal);
    this.#contenders.add(contender);
    try {
      const lock = await contender.run(
        (granted) => new HeldLock(quorum, held, settings, keys, granted),
      );
      if (this.options.tokenSource === undefined) {
        lock.start(new FencingToken(lock.ballot, keys, lock.nonce));
      } else {
        lock.watch();
        lock.start(await issueToken(this.options.tokenSource, lock, signal));
      }
      if (signal?.aborted === true) {
        await lock.release();
        throw signal.reason;
      }
      if (quorum.hasListener) {
        const { waitedMs, tries } = contender;
        quorum.emit({ type: 'acquired', keys, token: lock.token.value, waitedMs, tries });
      }
      return lock;
    } catch (error) {
      this.#report(error, keys);
      throw error;
    } finally {
      this.#contenders.delete(contender);
      stopListening?.();
      if (this.#closing) for (const look of this.#onReleased) look();
    }
  }

  #report(error: unknown, keys: readonly string[]): void {
    const { quorum } = this.#arena;
    if (error instanceof LockBusyError)
      quorum.emit({ type: 'busy', keys, waitedMs: error.waitedMs });
    else if (error instanceof QuorumUnavailableError) {
      quorum.emit({ type: 'unavailable', keys, waitedMs: error.waitedMs, causes: error.causes });
    }
  }

  #sessions(nodes: readonly LockNode[], environment: Environment): NodeSession[] {
    const listener: NodeSessionListener = {
      joined: ({ address }, quarantineMs) => {
        this.#arena.quorum.emit({ type: 'node-joined', address, quarantineMs });
        this.#arena.hints.hintAll();
        for (const look of this.#onJoined) look();
      },
      left: ({ address }, message) =>
        this.#arena.quorum.emit({ type: 'node-left', address, message }),
      hint: (lockName, nonce) => this.#arena.hints.hint(lockName, nonce),
    };
    const settings = sessionSettings(this.options);
    return nodes.map(
      (node, index) => new NodeSession(index, node, settings, environment, listener),
    );
  }

  /** Resolves true when `condition` holds, looking whenever one of `listeners` is called; false after `timeoutMs` or at the end. */
  #until(
    listeners: Set<() => void>,
    timeoutMs: number,
    condition: () => boolean,
  ): Promise<boolean> {
    if (condition()) return Promise.resolve(true);
    const { timers } = this.#arena.quorum.environment;
    return new Promise((resolve) => {
      const finish = (met: boolean) => {
        timers.clear(timer);
        listeners.delete(look);
        this.#onClose.delete(giveUp);
        resolve(met);
      };
      const giveUp = () => finish(false);
      const look = () => void (condition() && finish(true));
      const timer = timers.set(() => finish(false), timeoutMs);
      listeners.add(look);
      this.#onClose.add(giveUp);
    });
  }
}
