import type { NodeCause, NodeFailureReason } from '../errors.ts';
import { Deadline, type Collected } from '../nodes/deadlines.ts';
import type { ReleaseReply } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession, ReleaseCollector } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { Granted, LockCall } from '../voting/attempt.ts';
import type { KeyRecord, KeyTable } from './key-table.ts';
import { countOf } from './queue-place.ts';

/** The granted lock that is over. */
export interface LockToRelease {
  readonly call: LockCall;
  readonly grant: Granted;
  readonly tokenValue: number;
  /** Records of its keys, with the first caller of this process that waits for each. */
  readonly records: readonly KeyRecord[];
  /** Nodes that may hold it, as bits. The others know nothing of it: a frozen node gets no releases of locks it was not asked for. */
  readonly mayHold: number;
}

/** Parts that all locks of one service share. */
export interface LockRoom {
  readonly set: NodeSet;
  readonly table: KeyTable;
  /** Called when a lock ends, and again when its release is confirmed or given up. */
  readonly onEnd: () => void;
}

/**
 * Notifies every node that may hold it that a granted lock is over. It leaves at the end of the tick, in one message with the
 * vote of a caller that waits for the key. A node that could not be notified is notified later (see ReleaseOutbox), and its key expires
 * with the ttl.
 */
export class ReleaseRound extends Deadline implements Collected, ReleaseCollector {
  readonly #room: LockRoom;
  readonly #lock: LockToRelease;
  #done: Promise<void> | undefined;
  #resolve: (() => void) | undefined;
  #startedAtMs = 0;
  #failures: NodeCause[] | undefined;
  /** Nodes that have not answered, as bits. */
  #unanswered = 0;
  #confirmed = 0;
  #isDone = false;

  constructor(room: LockRoom, lock: LockToRelease) {
    super();
    this.#room = room;
    this.#lock = lock;
  }

  run(nowMs: number): void {
    const { set, table } = this.#room;
    const { call, grant, records, mayHold } = this.#lock;
    const { ttlMs, nodeTimeoutMs } = call.settings;
    let isAwaited = false;
    for (const record of records) {
      if (record.waiters.length === 0) record.rowSinceMs = undefined;
      else isAwaited = true;
    }
    const pass = !isAwaited || table.passes(records, nowMs);
    const names = new NodeNames(set.options.keyPrefix, call.keys);
    const request = { names, holder: grant.holder, granted: true, pass };
    this.#startedAtMs = nowMs;
    this.#unanswered = mayHold;
    table.openReleases += 1;
    set.answers.set(this, nodeTimeoutMs, nowMs);
    let isCollected = false;
    for (const session of set.sessions) {
      if ((mayHold & (1 << session.index)) === 0) continue;
      if (session.release(request, ttlMs, nowMs, this)) isCollected = true;
    }
    if (isCollected) set.outgoing.flushLater(this);
  }

  /** Resolves when a quorum answered, when all did, or after the node timeout; never rejects. Made only where somebody asks. */
  get done(): Promise<void> {
    if (this.#isDone) return Promise.resolve();
    this.#done ??= new Promise((resolve) => {
      this.#resolve = resolve;
    });
    return this.#done;
  }

  /** The bytes have left: from now on the nodes have their whole time to answer. */
  sent(nowMs: number): void {
    if (this.#isDone || nowMs - this.#startedAtMs < 1) return;
    this.#room.set.answers.set(this, this.#lock.call.settings.nodeTimeoutMs, nowMs);
  }

  released({ address, index }: NodeSession, reply: ReleaseReply): void {
    if (this.#isDone) return;
    this.#unanswered &= ~(1 << index);
    if (reply.kind === 'failed') this.#failed(address, reply.reason, reply.message);
    else this.#confirmed += 1;
    const { quorum } = this.#room.set.options;
    if (this.#confirmed >= quorum || this.#unanswered === 0) this.onDeadline();
  }

  onDeadline(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const { set, table, onEnd } = this.#room;
    const { call, tokenValue: token, mayHold } = this.#lock;
    set.answers.cancel(this);
    table.openReleases -= 1;
    if (this.#confirmed < Math.min(set.options.quorum, countOf(mayHold))) {
      for (const { address, index } of set.sessions)
        if ((this.#unanswered & (1 << index)) !== 0)
          this.#failed(address, 'timeout', 'no answer in time');
      const causes = this.#failures ?? [];
      set.events.emit({ type: 'release-incomplete', keys: call.keys, token, causes });
    }
    this.#resolve?.();
    onEnd();
  }

  #failed(address: string, reason: NodeFailureReason, message: string): void {
    const elapsedMs = this.#room.set.clock.nowMs - this.#startedAtMs;
    (this.#failures ??= []).push({ address, reason, message, elapsedMs });
  }
}
