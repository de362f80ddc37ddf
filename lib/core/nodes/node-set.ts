import { Deadlines } from './deadlines.ts';
import type { Environment } from '../environment.ts';
import type { LockEvent } from '../events.ts';
import type { NodeSession } from './node-session.ts';
import { Ballots } from './ballots.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';

const SLOW_WARNING_PAUSE_MS = 60_000;

/** The nodes of one service with what is learnt about them; every operation works on it. */
export class Quorum {
  readonly sessions: readonly NodeSession[];
  /** Votes that a lock needs. */
  readonly votesNeeded: number;
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  readonly proposals: Ballots;
  /** Of questions that somebody awaits. */
  readonly deadlines: Deadlines;
  /** Of held locks: they don't keep a process alive. */
  readonly alarms: Deadlines;
  /** Typical time until a quorum has answered; a guess until measured. */
  roundTripMs = 2;
  #measured = false;
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(
    sessions: readonly NodeSession[],
    options: ResolvedOptions,
    environment: Environment,
  ) {
    this.sessions = sessions;
    this.votesNeeded = options.quorum;
    this.options = options;
    this.environment = environment;
    this.proposals = new Ballots(environment.clock);
    this.deadlines = new Deadlines(environment, false);
    this.alarms = new Deadlines(environment, true);
  }

  get nowMs(): number {
    return this.environment.clock.monotonicMs();
  }

  get joinedCount(): number {
    let count = 0;
    for (const session of this.sessions) if (session.hasJoined) count += 1;
    return count;
  }

  /** A quorum answered after `elapsedMs`. */
  measured(elapsedMs: number, ttlMs: number, nowMs: number): void {
    this.roundTripMs = this.#measured
      ? this.roundTripMs + (elapsedMs - this.roundTripMs) / 8
      : elapsedMs;
    this.#measured = true;
    if (elapsedMs <= ttlMs / 10) return;
    if (nowMs - this.#warnedAtMs < SLOW_WARNING_PAUSE_MS) return;
    this.#warnedAtMs = nowMs;
    this.emit({ type: 'slow-quorum', roundTripMs: elapsedMs, ttlMs });
  }

  /** Whether anybody listens: saves building events in the common path. */
  get hasListener(): boolean {
    return this.options.onEvent !== undefined;
  }

  /** No deadline keeps a process alive after this, or does anything. */
  close(): void {
    this.deadlines.close();
    this.alarms.close();
  }

  emit(event: LockEvent): void {
    try {
      this.options.onEvent?.(event);
    } catch {
      // A listener that throws must not change what happens to a lock.
    }
  }
}
