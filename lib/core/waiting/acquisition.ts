import type { Arena } from './arena.ts';
import { Attempt } from '../voting/attempt.ts';
import type { AttemptOutcome, FailedAttempt, Granted } from '../voting/attempt.ts';
import { LockBusyError } from '../errors.ts';
import { acquireError } from '../voting/failure.ts';
import type { HeldLock } from '../holding/held-lock.ts';
import type { HintWatch } from './release-hints.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import { hintJitterMs, longestHintJitterMs, retryDelayMs } from './backoff.ts';
import type { Turn } from './wait-queue.ts';

/** After a hint, contenders behave as if they had failed so often at most; more only spreads them further apart. */
const FAIR_FAILURES = 3;
const STEPPED_BACK_FAILURES = 5;

/** One acquire on its way: waits its turn in line, tries, waits for a hint or its time, tries again, within its budget. */
export class Contender {
  /** Tries made so far. */
  tries = 0;
  readonly keys: readonly string[];
  readonly #arena: Arena;
  readonly #settings: ResolvedAcquire;
  readonly #startedAtMs: number;
  #watch: HintWatch | undefined;
  /** Of the latest try. */
  #holder = '';
  #cancelled: { readonly error: unknown } | undefined;
  #interrupt: (() => void) | undefined;
  /** Let other processes go first in this acquire. */
  #steppedBack = false;

  constructor(arena: Arena, keys: readonly string[], settings: ResolvedAcquire) {
    this.#arena = arena;
    this.keys = keys;
    this.#settings = settings;
    this.#startedAtMs = arena.quorum.nowMs;
  }

  get waitedMs(): number {
    return this.#arena.quorum.nowMs - this.#startedAtMs;
  }

  /**
   * Calls `grant` with the winning try while still first in line, and resolves with its lock.
   * Rejects with LockBusyError, QuorumUnavailableError, or what `cancel` was given.
   */
  async run(grant: (granted: Granted) => HeldLock): Promise<HeldLock> {
    const turn = this.#arena.queue.enter(this.keys);
    try {
      if (!turn.isFirst) await this.#queue(turn);
      for (;;) {
        this.#throwIfCancelled();
        this.#listen();
        const blocking = this.#arena.held.blocking(this.keys);
        if (blocking !== undefined) {
          await this.#waitForOwn(blocking);
          continue;
        }
        if (this.#arena.share.takeStepBack(this.keys)) await this.#letOthersGo();
        const outcome = await this.#try();
        if (outcome.kind === 'granted') {
          const lock = grant(outcome);
          if (this.#cancelled === undefined) return lock;
          // Cancelled after the vote was won: nothing may be held.
          await lock.release();
          throw this.#cancelled.error;
        }
        await this.#waitAfter(outcome, turn);
      }
    } finally {
      this.#watch?.close();
      turn.leave();
    }
  }

  /** Ends it: `run` rejects with `error` and nothing is held. */
  cancel(error: unknown): void {
    this.#cancelled ??= { error };
    this.#interrupt?.();
  }

  /** Cancels with the reason of `signal`; returns how to stop listening to it. */
  cancelOn(signal: AbortSignal | undefined): (() => void) | undefined {
    if (signal === undefined) return undefined;
    const abort = () => this.cancel(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    return () => signal.removeEventListener('abort', abort);
  }

  /** Hints count from before the first byte of a try, if they can be heard. */
  #listen(): void {
    if (this.#watch !== undefined) this.#watch.begin();
    else if (this.#arena.hints.hears(this.keys, this.#arena.quorum.options.keyPrefix)) {
      this.#ear.begin();
    }
  }

  /** Behind a lock that this process holds: no need to ask the nodes. */
  async #waitForOwn(lock: HeldLock): Promise<void> {
    const { occupiedMs } = lock;
    if (this.#remainingMs <= 0) throw new LockBusyError(this.keys, this.waitedMs, occupiedMs);
    await this.#pause(occupiedMs + 1);
    this.#throwIfCancelled();
    if (this.#remainingMs > 0) return;
    throw new LockBusyError(this.keys, this.waitedMs, lock.occupiedMs || undefined);
  }

  /** Long enough for a process that was told of the release to try first. */
  async #letOthersGo(): Promise<void> {
    const delayMs = Math.min(
      longestHintJitterMs(this.#arena.quorum.roundTripMs),
      this.#remainingMs,
    );
    if (delayMs > 0) await this.#sleep(delayMs);
    this.#steppedBack = true;
    this.#throwIfCancelled();
  }

  /** After a try that failed: until the next one can succeed. */
  async #waitAfter(outcome: FailedAttempt, turn: Turn): Promise<void> {
    if (outcome.replies.some((reply) => reply?.kind === 'held')) this.#arena.share.lost(this.keys);
    this.#throwIfCancelled();
    const failure = this.#telling(turn.lastFailure, outcome);
    turn.lastFailure = failure;
    if (this.#remainingMs <= 0) throw this.#error(failure);
    this.#ear.subscribe();
    const failed = { replies: outcome.replies, quorum: this.#arena.quorum.votesNeeded };
    await this.#pause(retryDelayMs(failed, this.#retryFacts()));
    this.#throwIfCancelled();
    if (this.#remainingMs <= 0) throw this.#error(failure);
  }

  /** A last try that was cut short by the budget, to whole milliseconds, says less than the one before it. */
  #telling(before: FailedAttempt | undefined, last: FailedAttempt): FailedAttempt {
    return before !== undefined && this.#remainingMs < 1 ? before : last;
  }

  #error(failure: FailedAttempt): Error {
    return acquireError(this.keys, this.waitedMs, this.#arena.quorum.votesNeeded, failure);
  }

  /** Waits in line; with `wait: 0` as long as a try of the one ahead may take, to learn whether it is an outage. */
  async #queue(turn: Turn): Promise<void> {
    const budgetMs = Math.max(this.#remainingMs, this.#settings.nodeTimeoutMs);
    const { timers } = this.#arena.quorum.environment;
    await new Promise<void>((resolve) => {
      const finish = () => {
        timers.clear(timer);
        turn.whenFirst(undefined);
        resolve();
      };
      const timer = timers.set(finish, budgetMs);
      turn.whenFirst(finish);
      this.#interrupt = finish;
    });
    this.#throwIfCancelled();
    if (turn.isFirst) return;
    const { ahead } = turn;
    const failure = ahead?.lastFailure;
    if (failure !== undefined) throw this.#error(failure);
    throw new LockBusyError(
      this.keys,
      this.waitedMs,
      this.#arena.held.blocking(this.keys)?.occupiedMs,
    );
  }

  #try(): Promise<AttemptOutcome> {
    const { nodeTimeoutMs, ttlMs, waitMs } = this.#settings;
    // In whole milliseconds: rounds of one timeout share a timer.
    const timeoutMs =
      waitMs === 0 || (this.tries === 0 && waitMs > nodeTimeoutMs)
        ? nodeTimeoutMs
        : Math.min(nodeTimeoutMs, Math.max(1, Math.floor(this.#remainingMs)));
    const untilMs = waitMs === 0 ? Number.POSITIVE_INFINITY : this.#startedAtMs + waitMs;
    const attempt = new Attempt(this.#arena.quorum, this.keys, ttlMs, timeoutMs, untilMs);
    this.tries += 1;
    this.#holder = attempt.holder;
    this.#watch?.ignore(attempt.holder);
    this.#interrupt = () => attempt.cancel();
    return attempt.run();
  }

  /** Until a hint and a little jitter after it, or until the time or the budget has passed. */
  async #pause(delayMs: number): Promise<void> {
    const hinted = await this.#ear.wait(Math.min(delayMs, this.#remainingMs), (interrupt) => {
      this.#interrupt = interrupt;
    });
    if (!hinted || this.#cancelled !== undefined) return;
    const { roundTripMs, environment } = this.#arena.quorum;
    // Whoever lost often must not be slower than whoever just came; only who let others go first is.
    const failures = this.#steppedBack
      ? STEPPED_BACK_FAILURES
      : Math.min(this.tries, FAIR_FAILURES);
    const jitterMs = hintJitterMs({ failures, roundTripMs, random: environment.random.fraction() });
    await this.#sleep(Math.min(jitterMs, this.#remainingMs));
  }

  #sleep(ms: number): Promise<void> {
    const { timers } = this.#arena.quorum.environment;
    return new Promise((resolve) => {
      const timer = timers.set(resolve, ms);
      this.#interrupt = () => {
        timers.clear(timer);
        resolve();
      };
    });
  }

  get #ear(): HintWatch {
    const { hints, quorum } = this.#arena;
    if (this.#watch === undefined) {
      this.#watch = hints.watch(this.keys.map((key) => quorum.options.keyPrefix + key));
      this.#watch.ignore(this.#holder);
    }
    return this.#watch;
  }

  get #remainingMs(): number {
    return this.#startedAtMs + this.#settings.waitMs - this.#arena.quorum.nowMs;
  }

  #retryFacts() {
    const { quorum } = this.#arena;
    const { ttlMs, nodeTimeoutMs } = this.#settings;
    return {
      failures: this.tries,
      roundTripMs: quorum.roundTripMs,
      ttlMs,
      baseDelayMs: quorum.options.retryBaseDelayMs ?? 2 * quorum.roundTripMs,
      maxDelayMs: quorum.options.retryMaxDelayMs ?? nodeTimeoutMs,
      random: quorum.environment.random.fraction(),
    };
  }

  #throwIfCancelled(): void {
    if (this.#cancelled !== undefined) throw this.#cancelled.error;
  }
}
