import type { NodeCause, NodeFailureReason } from '../errors.ts';
import { Deadline } from '../nodes/deadlines.ts';
import type { ReleaseReply } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession, ReleaseCollector } from '../nodes/node-session.ts';
import type { Collected, NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { KeyRecord, KeyTable } from './key-table.ts';

/** The granted lock that is over. */
export interface LockToRelease {
  readonly keys: readonly string[];
  readonly holder: string;
  readonly tokenValue: number;
  readonly settings: Pick<ResolvedAcquire, 'ttlMs' | 'nodeTimeoutMs'>;
  /** Records of its keys, with the first caller of this process that waits for each. */
  readonly records: readonly KeyRecord[];
  /** Nodes that may hold it, as bits. The others know nothing of it: a frozen node gets no releases of locks it was not asked for. */
  readonly mayHold: number;
}

/** Place where it was held. */
export interface ReleaseRoom {
  readonly set: NodeSet;
  readonly table: KeyTable;
  /** Called when there is nothing more to wait for. */
  readonly onEnd: () => void;
}

/**
 * Notifies every node that may hold it that a granted lock is over. It leaves at the end of the tick, in one message with the
 * vote of a caller that waits for the key. A node that could not be notified is notified later (see ReleaseOutbox), and its key expires
 * with the ttl.
 */
export class ReleaseRound extends Deadline implements Collected, ReleaseCollector {
  readonly #room: ReleaseRoom;
  readonly #lock: LockToRelease;
  #done: Promise<void> | undefined;
  #resolve: (() => void) | undefined;
  #startedAtMs = 0;
  #failures: NodeCause[] | undefined;
  #notified = 0;
  /** Nodes that have not answered, as bits. */
  #unanswered = 0;
  #answered = 0;
  #confirmed = 0;
  #isDone = false;

  constructor(room: ReleaseRoom, lock: LockToRelease) {
    super();
    this.#room = room;
    this.#lock = lock;
  }

  run(nowMs: number): void {
    const { set, table } = this.#room;
    const { keys, holder, settings, records, mayHold } = this.#lock;
    const { ttlMs, nodeTimeoutMs } = settings;
    let isAwaited = false;
    for (const record of records) {
      if (record.first === undefined) record.rowSinceMs = undefined;
      else isAwaited = true;
    }
    const pass = !isAwaited || table.passes(records, nowMs);
    const names = new NodeNames(set.options.keyPrefix, keys, set.marker);
    const request = { names, holder, granted: true, pass };
    this.#startedAtMs = nowMs;
    this.#unanswered = mayHold;
    set.openReleases += 1;
    for (let bits = mayHold; bits !== 0; bits &= bits - 1) this.#notified += 1;
    set.answers.set(this, nodeTimeoutMs, nowMs);
    let isCollected = false;
    for (const session of set.sessions) {
      if ((mayHold & (1 << session.index)) === 0) continue;
      if (session.release(request, ttlMs, nowMs, this)) isCollected = true;
    }
    if (isCollected) set.flushLater(this);
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
    this.#room.set.answers.set(this, this.#lock.settings.nodeTimeoutMs, nowMs);
  }

  released({ address, index }: NodeSession, reply: ReleaseReply): void {
    if (this.#isDone) return;
    this.#answered += 1;
    this.#unanswered &= ~(1 << index);
    if (reply.kind === 'failed') this.#failed(address, reply.reason, reply.message);
    else this.#confirmed += 1;
    const { quorum } = this.#room.set;
    if (this.#confirmed >= quorum || this.#answered === this.#notified) this.onDeadline();
  }

  onDeadline(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const { set, onEnd } = this.#room;
    const { keys, tokenValue: token } = this.#lock;
    set.answers.cancel(this);
    set.openReleases -= 1;
    if (this.#confirmed < Math.min(set.quorum, this.#notified)) {
      for (const { address, index } of set.sessions)
        if ((this.#unanswered & (1 << index)) !== 0)
          this.#failed(address, 'timeout', 'no answer in time');
      set.emit({ type: 'release-incomplete', keys, token, causes: this.#failures ?? [] });
    }
    this.#resolve?.();
    onEnd();
  }

  #failed(address: string, reason: NodeFailureReason, message: string): void {
    const elapsedMs = this.#room.set.nowMs - this.#startedAtMs;
    (this.#failures ??= []).push({ address, reason, message, elapsedMs });
  }
}
