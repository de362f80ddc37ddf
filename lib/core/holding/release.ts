import type { AsyncResource } from 'node:async_hooks';
import { Deadline } from '../nodes/deadlines.ts';
import type { NodeCause } from '../errors.ts';
import type { LockNames, NodeFailure } from '../nodes/lock-node.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { Collected, NodeSet } from '../nodes/node-set.ts';

/** The granted lock that is over. */
export interface LockToRelease {
  readonly keys: readonly string[];
  readonly names: LockNames;
  readonly holder: string;
  readonly token: number;
  /** Of the call that acquired it: its events run there. */
  readonly context: AsyncResource | undefined;
  /** Nodes that may hold it, as bits. The others know nothing of it: a frozen node gets no releases of locks it was not asked for. */
  readonly mayHold: number;
}

/**
 * Tells every node that may hold it that a granted lock is over. Resolves when a quorum answered, when everybody did, or
 * after the node timeout; never rejects. A node that was not told is told later (see ReleaseOutbox), and its key dies with
 * the ttl. `onCounted` is called just before, with the number of connections that received the hint.
 */
export function releaseGranted(
  set: NodeSet,
  lock: LockToRelease,
  timing: { readonly ttlMs: number; readonly nodeTimeoutMs: number },
  onCounted: (listeners: number) => void,
): Promise<void> {
  return new Promise((resolve) => {
    new ReleaseRound(set, lock, onCounted, resolve).run(timing.ttlMs, timing.nodeTimeoutMs);
  });
}

class ReleaseRound extends Deadline implements Collected {
  readonly #set: NodeSet;
  readonly #lock: LockToRelease;
  readonly #onCounted: (listeners: number) => void;
  readonly #resolve: () => void;
  readonly #startedAtMs: number;
  #failures: NodeCause[] | undefined;
  #notified = 0;
  #answered = 0;
  #confirmed = 0;
  #listeners = 0;
  #timeoutMs = 0;
  #done = false;

  constructor(
    set: NodeSet,
    lock: LockToRelease,
    onCounted: (listeners: number) => void,
    resolve: () => void,
  ) {
    super();
    this.#set = set;
    this.#lock = lock;
    this.#onCounted = onCounted;
    this.#resolve = resolve;
    this.#startedAtMs = set.nowMs;
  }

  run(ttlMs: number, nodeTimeoutMs: number): void {
    const { sessions, answers } = this.#set;
    const { names, holder, mayHold } = this.#lock;
    const request = {
      names,
      holder,
      granted: true,
      notify: true,
    };
    for (const { index } of sessions) if ((mayHold & (1 << index)) !== 0) this.#notified += 1;
    this.#timeoutMs = nodeTimeoutMs;
    answers.set(this, nodeTimeoutMs, this.#startedAtMs);
    let isCollected = false;
    for (const session of sessions) {
      if ((mayHold & (1 << session.index)) === 0) continue;
      session.release(request, ttlMs, (failure, listeners) => {
        if (listeners > this.#listeners) this.#listeners = listeners;
        this.#answer(session, failure);
      });
      isCollected ||= session.node.hasCollected;
    }
    if (isCollected) this.#set.flushLater(this);
  }

  sent(nowMs: number): void {
    if (!this.#done && nowMs - this.#startedAtMs >= 1)
      this.#set.answers.set(this, this.#timeoutMs, nowMs);
  }

  onDeadline(): void {
    this.#finish();
  }

  #answer(session: NodeSession, failure: NodeFailure | undefined): void {
    this.#answered += 1;
    if (failure === undefined) this.#confirmed += 1;
    else {
      const { reason, message } = failure;
      const elapsedMs = this.#set.nowMs - this.#startedAtMs;
      (this.#failures ??= []).push({ address: session.address, reason, message, elapsedMs });
    }
    if (this.#confirmed >= this.#set.quorum || this.#answered === this.#notified) this.#finish();
  }

  #finish(): void {
    if (this.#done) return;
    this.#done = true;
    this.#set.answers.cancel(this);
    if (this.#confirmed < Math.min(this.#set.quorum, this.#notified)) {
      const { keys, token, context } = this.#lock;
      const causes = this.#failures ?? [];
      context?.runInAsyncScope(() =>
        this.#set.emit({ type: 'release-incomplete', keys, token, causes }),
      );
    }
    this.#onCounted(this.#listeners);
    this.#resolve();
  }
}
