import type { NodeCause, NodeFailureReason } from '../errors.ts';
import { Deadline } from '../nodes/deadlines.ts';
import type { ReleaseReply } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ReleaseCollector, ServiceNode } from '../nodes/service.ts';
import type { KeyLock, KeyTable } from './key-table.ts';
import { countOf } from './queue-place.ts';

/** The parts that all locks of one service share. */
export interface SharedByLocks {
  readonly nodes: NodeSet;
  readonly table: KeyTable;
  /** Called when a lock ends, and again when its release is confirmed or given up. */
  readonly onEnd: () => void;
}

/**
 * Notifies every node that may hold it that a granted lock is over: at the end of the tick, in one message with the vote of a
 * caller that waits for the key. One that could not be notified is notified later (see ReleaseOutbox).
 */
export class ReleaseRound extends Deadline implements ReleaseCollector {
  readonly #shared: SharedByLocks;
  readonly #lock: KeyLock;
  readonly #startedAtMs: number;
  /** Calls when it is done; made only where somebody asks. */
  #onDone: (() => void)[] | undefined;
  #failures: NodeCause[] | undefined;
  /** The nodes that have not answered, as bits. */
  #unanswered: number;
  #confirmed = 0;
  #isDone = false;

  constructor(shared: SharedByLocks, lock: KeyLock, nowMs: number) {
    super();
    this.#shared = shared;
    this.#lock = lock;
    this.#startedAtMs = nowMs;
    const { nodes, table } = shared;
    const { call, grant } = lock;
    const pass = table.passes(lock, nowMs);
    const { mayHold } = lock;
    this.#unanswered = mayHold;
    table.openReleases += 1;
    nodes.answers.set(this, call.settings.nodeTimeoutMs, nowMs);
    const names = new NodeNames(nodes.options.keyPrefix, call.keys);
    const request = { names, holder: grant.holder, granted: true, pass };
    nodes.release(mayHold, request, nowMs + call.settings.ttlMs, this);
  }

  /** Resolves when a quorum answered, when all did, or after the node timeout; never rejects. */
  whenDone(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isDone) resolve();
      else (this.#onDone ??= []).push(resolve);
    });
  }

  /** The bytes have left: from now on the nodes have their whole time to answer. */
  sent(nowMs: number): void {
    if (this.#isDone || nowMs - this.#startedAtMs < 1) return;
    this.#shared.nodes.answers.set(this, this.#lock.call.settings.nodeTimeoutMs, nowMs);
  }

  released({ address, index }: ServiceNode, reply: ReleaseReply): void {
    if (this.#isDone) return;
    this.#unanswered &= ~(1 << index);
    if (reply.kind === 'failed') this.#failed(address, reply.reason, reply.message);
    else this.#confirmed += 1;
    const { quorum } = this.#shared.nodes.options;
    if (this.#confirmed >= quorum || this.#unanswered === 0) this.onDeadline();
  }

  onDeadline(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const { nodes, table, onEnd } = this.#shared;
    const { about, mayHold } = this.#lock;
    nodes.answers.cancel(this);
    table.openReleases -= 1;
    if (this.#confirmed < Math.min(nodes.options.quorum, countOf(mayHold))) {
      for (const { address, index } of nodes.sessions)
        if ((this.#unanswered & (1 << index)) !== 0)
          this.#failed(address, 'timeout', 'no answer in time');
      const causes = this.#failures ?? [];
      nodes.events.emit({ type: 'release-incomplete', ...about, causes });
    }
    for (const resolve of this.#onDone ?? []) resolve();
    onEnd();
  }

  #failed(address: string, reason: NodeFailureReason, message: string): void {
    const elapsedMs = this.#shared.nodes.clock.nowMs - this.#startedAtMs;
    (this.#failures ??= []).push({ address, reason, message, elapsedMs });
  }
}
