import { FencedUsageError, isRedlockError, quoteKeys, RedlockClosedError } from '../core/errors.ts';
import type { LockEvent } from '../core/events.ts';
import type { Lock } from '../core/lock.ts';
import { inSeconds, MAX_DURATION_MS } from '../core/options/duration.ts';
import { WITH_LOCK_RULES } from '../core/options/resolve-options.ts';
import { inModuleContext } from '../core/system-environment.ts';
import type { LockHost } from '../locks/lock-host.ts';
import { calledBy } from '../core/holding/reentrancy.ts';

/** The methods of a class under `@Leader`. */
export interface Candidate {
  /**
   * This process leads from now until `signal` aborts, also when this method has returned by then: it may only start timers. When it
   * rejects, this process steps down, and stands again a second later.
   *
   * @param lock whose token is the term: that of each later leader is larger, and a fence rejects those before it
   * @param signal aborts when the lock is lost, before there is another leader, and in a shutdown: work that goes on must end then
   */
  onElected(lock: Lock, signal: AbortSignal): unknown;
  /** The term is over, and its `onElected` has settled. In a shutdown, the next one leads when this has settled, too. */
  onDeposed?(): unknown;
}

/** After a term others may be elected first. */
const PAUSE_MS = 1_000;
/** A term has no end of its own, and nobody has to know that it lasts. */
const UNLIMITED = Number.POSITIVE_INFINITY;
const OF_LEADER = {
  call: '@Leader',
  table: { ...WITH_LOCK_RULES.table, maxHold: () => UNLIMITED },
};
/** The keys that have a candidate in an application. */
const candidates = new WeakMap<LockHost, Set<string>>();

/** An instance that stands for election from now on. */
export class Leadership {
  readonly #host: LockHost;
  readonly #leader: Candidate;
  readonly #caller: { readonly where: string; readonly template: string };
  readonly #stopped = new AbortController();
  readonly #standing: Promise<void>;
  #term: { readonly lock: Lock; readonly signal: AbortSignal } | undefined;
  /** Resolves when the code of the last term has ended. */
  #work = Promise.resolve();

  /** @throws FencedUsageError for a second candidate of the application, of which one would never lead */
  constructor(host: LockHost, leader: Candidate, key: string, className: string) {
    const keys = candidates.get(host) ?? new Set();
    if (keys.has(key))
      throw new FencedUsageError(
        `${className} is under @Leader, and this application has another instance for the lock ${quoteKeys([key])}: only one of them would ever lead. Give each class a name of its own, and provide it in one module.`,
        [key],
      );
    candidates.set(host, keys.add(key));
    this.#host = host;
    this.#leader = leader;
    this.#caller = { where: `${className}.onElected`, template: key };
    this.#standing = this.#stand(key);
  }

  get isLeader(): boolean {
    return this.#term !== undefined && this.#term.lock.isHeld && !this.#term.signal.aborted;
  }

  /** Steps down, and resolves when the next one may lead, and the work of the last term has ended, which may have lost its lock before. */
  async end(): Promise<void> {
    this.#stopped.abort(new RedlockClosedError([this.#caller.template]));
    const ended = settlesIn(this.#host.shutdownTimeoutMs, this.#work);
    await this.#standing;
    await ended;
  }

  async #stand(key: string): Promise<void> {
    const { redlock, logger } = this.#host;
    const { signal } = this.#stopped;
    const stopped = whenAborted(signal);
    // The hook of a subclass may hide the one that ends this.
    const isOver = () => signal.aborted || redlock.isClosing;
    const limits = { wait: MAX_DURATION_MS, maxHold: UNLIMITED, minHold: 0, extend: true };
    const options = calledBy(this.#caller, { ...limits, signal, onLost: 'ignore' as const });
    while (!isOver()) {
      try {
        await redlock.withLock(key, (lock) => this.#lead(lock), options, OF_LEADER);
      } catch (error) {
        if (!isOver())
          logger.warn(`${this.#caller.where} still waits to be elected: ${String(error)}`);
      }
      await Promise.race([this.#work, stopped]);
      await settlesIn(PAUSE_MS, stopped);
    }
  }

  /** One term, until its lock may go to the next leader. */
  async #lead(lock: Lock): Promise<void> {
    const failed = new AbortController();
    const signal = AbortSignal.any([lock.signal, this.#stopped.signal, failed.signal]);
    const { keys, token } = lock;
    const about = { keys, token: token.value, holder: token.holder, ...this.#caller };
    const electedAtMs = performance.now();
    const over = whenAborted(signal);
    this.#term = { lock, signal };
    this.#tell({ type: 'elected', ...about });
    this.#work = this.#run(lock, signal, failed);
    await over;
    this.#tell({ type: 'deposed', ...about, heldMs: performance.now() - electedAtMs });
    const { redlock, logger, shutdownTimeoutMs } = this.#host;
    // Nobody leads while this process steps down, so it takes no longer than others would have to wait after a crash.
    const { aborted: isShutdown } = this.#stopped.signal;
    const limitMs = isShutdown ? shutdownTimeoutMs : redlock.options.acquire.ttlMs;
    if (!(await settlesIn(limitMs, this.#work)))
      logger.warn(
        `${this.#caller.where}, or onDeposed, still runs ${inSeconds(limitMs)} after its term. Another process may lead by now, and this one does not stand again before both have ended. Let the work end when its signal aborts.`,
      );
  }

  /** Runs the code of a term. */
  async #run(lock: Lock, signal: AbortSignal, failed: AbortController): Promise<void> {
    try {
      await this.#leader.onElected(lock, signal);
      await whenAborted(signal);
    } catch (error) {
      // An error of these kinds is how work says that it was told to end.
      const isEnd = isRedlockError(error) || (error as Error | null)?.name === 'AbortError';
      if (!signal.aborted || !isEnd) this.#say('onElected', error);
      failed.abort(error);
    }
    try {
      await this.#leader.onDeposed?.();
    } catch (error) {
      this.#say('onDeposed', error);
    }
  }

  #say(method: keyof Candidate, error: unknown): void {
    const where = this.#caller.where.replace('onElected', method);
    const detail = error instanceof Error ? error.stack : String(error);
    this.#host.logger.error(`${where} failed, and its term is over: ${detail}`);
  }

  #tell(event: LockEvent): void {
    inModuleContext(() => this.#host.onEvent(event));
  }
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Whether `work` settles within so long. */
async function settlesIn(limitMs: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, limitMs, false);
  });
  const isSettled = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return isSettled;
}
