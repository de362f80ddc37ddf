import type { Environment } from './environment.ts';
import type { LockEvent } from './events.ts';
import type { NodeSession } from './node-session.ts';
import { Proposals } from './proposal.ts';
import type { ResolvedOptions } from './resolve-options.ts';

const SLOW_WARNING_PAUSE_MS = 60_000;

/** The nodes of one service with what is learnt about them; every operation works on it. */
export class Quorum {
  readonly sessions: readonly NodeSession[];
  /** Votes that a lock needs. */
  readonly votesNeeded: number;
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  readonly proposals: Proposals;
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
    this.proposals = new Proposals(environment.clock);
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
  measured(elapsedMs: number, ttlMs: number): void {
    this.roundTripMs = this.#measured
      ? this.roundTripMs + (elapsedMs - this.roundTripMs) / 8
      : elapsedMs;
    this.#measured = true;
    if (elapsedMs <= ttlMs / 10) return;
    const now = this.nowMs;
    if (now - this.#warnedAtMs < SLOW_WARNING_PAUSE_MS) return;
    this.#warnedAtMs = now;
    this.emit({ type: 'slow-quorum', roundTripMs: elapsedMs, ttlMs });
  }

  /** Whether anybody listens: saves building events in the common path. */
  get hasListener(): boolean {
    return this.options.onEvent !== undefined;
  }

  emit(event: LockEvent): void {
    try {
      this.options.onEvent?.(event);
    } catch {
      // A listener that throws must not change what happens to a lock.
    }
  }
}
