import { Deadline } from '../nodes/deadlines.ts';
import type { NodeCause } from '../errors.ts';
import { lockNames } from '../nodes/node-names.ts';
import type { NodeFailure } from '../nodes/lock-node.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { Quorum } from '../nodes/node-set.ts';

/** The granted lock that is over. */
export interface LockToRelease {
  readonly keys: readonly string[];
  readonly holder: string;
  readonly token: number;
  /** Nodes that may hold it, as bits. The others know nothing of it: a frozen node gets no releases of locks it was not asked for. */
  readonly mayHold: number;
}

/**
 * Tells every node that may hold it that a granted lock is over. Resolves when a quorum answered, when everybody did, or
 * after the node timeout; never rejects. A node that was not told is told later (see ReleaseOutbox), and its key dies with
 * the ttl. `onHeard` is called just before, with the number of connections that heard the hint.
 */
export function releaseGranted(
  quorum: Quorum,
  lock: LockToRelease,
  timing: { readonly ttlMs: number; readonly nodeTimeoutMs: number },
  onHeard: (listeners: number) => void,
): Promise<void> {
  return new Promise((resolve) => {
    new ReleaseRound(quorum, lock, onHeard, resolve).run(timing.ttlMs, timing.nodeTimeoutMs);
  });
}

class ReleaseRound extends Deadline {
  readonly #quorum: Quorum;
  readonly #lock: LockToRelease;
  readonly #onHeard: (listeners: number) => void;
  readonly #resolve: () => void;
  readonly #startedAtMs: number;
  #failures: NodeCause[] | undefined;
  #told = 0;
  #answered = 0;
  #confirmed = 0;
  #listeners = 0;
  #done = false;

  constructor(
    quorum: Quorum,
    lock: LockToRelease,
    onHeard: (listeners: number) => void,
    resolve: () => void,
  ) {
    super();
    this.#quorum = quorum;
    this.#lock = lock;
    this.#onHeard = onHeard;
    this.#resolve = resolve;
    this.#startedAtMs = quorum.nowMs;
  }

  run(ttlMs: number, nodeTimeoutMs: number): void {
    const { sessions, options, deadlines } = this.#quorum;
    const { keys, holder, mayHold } = this.#lock;
    const request = {
      names: lockNames(options.keyPrefix, keys),
      holder,
      granted: true,
      notify: true,
    };
    for (const { index } of sessions) if ((mayHold & (1 << index)) !== 0) this.#told += 1;
    deadlines.set(this, nodeTimeoutMs, this.#startedAtMs);
    for (const session of sessions) {
      if ((mayHold & (1 << session.index)) === 0) continue;
      session.release(request, ttlMs, (failure, listeners) => {
        if (listeners > this.#listeners) this.#listeners = listeners;
        this.#answer(session, failure);
      });
    }
  }

  onDeadline(): void {
    this.#finish();
  }

  #answer(session: NodeSession, failure: NodeFailure | undefined): void {
    this.#answered += 1;
    if (failure === undefined) this.#confirmed += 1;
    else {
      const { reason, message } = failure;
      const elapsedMs = this.#quorum.nowMs - this.#startedAtMs;
      (this.#failures ??= []).push({ address: session.address, reason, message, elapsedMs });
    }
    if (this.#confirmed >= this.#quorum.votesNeeded || this.#answered === this.#told)
      this.#finish();
  }

  #finish(): void {
    if (this.#done) return;
    this.#done = true;
    this.#quorum.deadlines.cancel(this);
    if (this.#confirmed < Math.min(this.#quorum.votesNeeded, this.#told)) {
      const { keys, token } = this.#lock;
      this.#quorum.emit({ type: 'release-incomplete', keys, token, causes: this.#failures ?? [] });
    }
    this.#onHeard(this.#listeners);
    this.#resolve();
  }
}
