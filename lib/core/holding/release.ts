import type { NodeCause, NodeFailureReason } from '../errors.ts';
import { Deadline } from '../deadlines.ts';
import type { ReleaseReply } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { ReleaseCollector, ServiceNode } from '../nodes/service.ts';
import type { KeyLock, SharedByLocks } from './key-lock.ts';

/**
 * Notifies every node that may hold it that a granted lock is over: at the end of the tick, in one message with the vote of a
 * caller that waits for the key. One that could not be notified is notified later (see ReleaseOutbox).
 */
export class ReleaseRound extends Deadline implements ReleaseCollector {
  readonly #shared: SharedByLocks;
  readonly #lock: KeyLock;
  readonly #startedAtMs: number;
  #resolve!: () => void;
  /** Resolves when a quorum answered, when all did, or after the node timeout; never rejects. */
  readonly done = new Promise<void>((resolve) => {
    this.#resolve = resolve;
  });
  readonly #failures: NodeCause[] = [];
  readonly #unanswered: Set<ServiceNode>;
  /** As many confirmations are enough: those of a quorum, or of all that were asked. */
  readonly #needed: number;
  #confirmed = 0;

  constructor(shared: SharedByLocks, lock: KeyLock, nowMs: number) {
    super();
    this.#shared = shared;
    this.#lock = lock;
    this.#startedAtMs = nowMs;
    const { nodes, keys, releases } = shared;
    const { call, grant } = lock;
    const pass = keys.passOrKeep(lock, nowMs);
    const { mayHold } = lock;
    this.#unanswered = new Set(nodes.sessions.filter(({ index }) => mayHold & (1 << index)));
    this.#needed = Math.min(nodes.options.quorum, this.#unanswered.size);
    releases.add(this);
    nodes.answers.set(this, call.settings.nodeTimeoutMs, nowMs);
    const names = new NodeNames(nodes.options.keyPrefix, call.keys);
    const request = { names, holder: grant.holder, granted: true, pass };
    nodes.release(mayHold, request, nowMs + call.settings.ttlMs, this);
  }

  get #isDone(): boolean {
    return !this.#shared.releases.has(this);
  }

  /** The bytes have left: from now on the nodes have their whole time to answer. */
  sent(nowMs: number): void {
    if (this.#isDone || nowMs - this.#startedAtMs < 1) return;
    this.#shared.nodes.answers.set(this, this.#lock.call.settings.nodeTimeoutMs, nowMs);
  }

  released(node: ServiceNode, reply: ReleaseReply): void {
    if (this.#isDone) return;
    this.#unanswered.delete(node);
    if (reply.kind === 'failed') this.#failed(node, reply.reason, reply.message);
    else this.#confirmed += 1;
    if (this.#confirmed >= this.#needed || this.#unanswered.size === 0) this.onDeadline();
  }

  onDeadline(): void {
    const { nodes, releases, onEnd } = this.#shared;
    if (!releases.delete(this)) return;
    nodes.answers.cancel(this);
    if (this.#confirmed < this.#needed) {
      for (const node of this.#unanswered) this.#failed(node, 'timeout', 'no answer in time');
      const { about } = this.#lock;
      nodes.events.emit({ type: 'release-incomplete', ...about, causes: this.#failures });
    }
    this.#resolve();
    onEnd();
  }

  #failed({ address }: ServiceNode, reason: NodeFailureReason, message: string): void {
    const elapsedMs = this.#shared.nodes.clock.nowMs - this.#startedAtMs;
    this.#failures.push({ address, reason, message, elapsedMs });
  }
}
