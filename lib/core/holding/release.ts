import type { AsyncResource } from 'node:async_hooks';
import type { NodeCause, NodeFailureReason } from '../errors.ts';
import { Deadline } from '../nodes/deadlines.ts';
import type { ReleaseReply } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession, ReleaseCollector } from '../nodes/node-session.ts';
import type { Collected, NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import { NOW } from '../voting/attempt.ts';
import type { KeyRecord, KeyTable } from './key-table.ts';

/** Releases that work of a user delays leave at once for so many times the delay: a twentieth of the time is lost at most. */
const DELAY_PAUSE_FACTOR = 20;

/** The granted lock that is over. */
export interface LockToRelease {
  readonly keys: readonly string[];
  readonly holder: string;
  readonly settings: Pick<ResolvedAcquire, 'ttlMs' | 'nodeTimeoutMs'>;
  /** Of its keys, with the first caller of this process that waits for each. */
  readonly records: readonly KeyRecord[];
}

/** Where it was held. */
export interface ReleaseRoom {
  readonly set: NodeSet;
  readonly table: KeyTable;
  /** Called when there is nothing more to wait for. */
  readonly onEnd: () => void;
}

/**
 * Notifies every node that may hold it that a granted lock is over. A node that could not be notified is notified later (see ReleaseOutbox), and its key expires
 * with the ttl.
 */
export class ReleaseRound extends Deadline implements Collected, ReleaseCollector {
  readonly #set: NodeSet;
  readonly #lock: LockToRelease;
  readonly #room: ReleaseRoom;
  readonly #token: number;
  /** Nodes that may hold it, as bits. The others know nothing of it: a frozen node gets no releases of locks it was not asked for. */
  readonly #mayHold: number;
  /** Of the call that acquired it: its events run there. Undefined for one that was kept for `minHold` meanwhile. */
  readonly #context: AsyncResource | undefined;
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
  #isWaiting = false;

  constructor(
    room: ReleaseRoom,
    lock: LockToRelease,
    token: number,
    mayHold: number,
    context: AsyncResource | undefined,
  ) {
    super();
    this.#room = room;
    this.#set = room.set;
    this.#lock = lock;
    this.#token = token;
    this.#mayHold = mayHold;
    this.#context = context;
  }

  /** `mayWait`: nobody waits for the answers, so it may leave with the vote that follows in the same tick, where one is expected. */
  run(nowMs: number, mayWait: boolean): void {
    const { sessions, answers, options, marker } = this.#set;
    const { keys, holder, settings, records } = this.#lock;
    const { ttlMs, nodeTimeoutMs } = settings;
    const mayHold = this.#mayHold;
    // It leaves with the vote of the next caller here, which looks in a moment.
    let isAwaited = false;
    for (const record of records) {
      if (record.first === undefined) record.rowSinceMs = undefined;
      else isAwaited = true;
    }
    const isWanted = mayWait && isAwaited;
    const isExpected = this.#set.isReleaseFollowed && nowMs >= this.#set.releasesLeaveUntilMs;
    this.#isWaiting = isExpected && mayWait && !isWanted;
    const isPatient = this.#isWaiting || isWanted;
    const names = new NodeNames(options.keyPrefix, keys, marker);
    const pass = !isAwaited || this.#room.table.passes(records, nowMs);
    const request = { names, holder, granted: true, pass, mayWait: isPatient };
    this.#startedAtMs = this.#set.releasedAtMs = nowMs;
    this.#set.isReleaseFollowed = false;
    this.#unanswered = mayHold;
    this.#set.openReleases += 1;
    for (let bits = mayHold; bits !== 0; bits &= bits - 1) this.#notified += 1;
    answers.set(this, nodeTimeoutMs, nowMs);
    let isCollected = false;
    for (const session of sessions) {
      if ((mayHold & (1 << session.index)) === 0) continue;
      if (session.release(request, ttlMs, nowMs, this)) isCollected = true;
    }
    if (isCollected) this.#set.flushLater(this, !isPatient);
    // After those that wait have looked, and before the code of users goes on, which may take its time.
    if (isWanted) void NOW.then(() => NOW.then(() => this.#set.flush()));
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
    const delayMs = nowMs - this.#startedAtMs;
    if (delayMs < 1) return;
    if (this.#isWaiting) this.#set.releasesLeaveUntilMs = nowMs + DELAY_PAUSE_FACTOR * delayMs;
    if (!this.#isDone) this.#set.answers.set(this, this.#lock.settings.nodeTimeoutMs, nowMs);
  }

  released({ address, index }: NodeSession, reply: ReleaseReply): void {
    if (this.#isDone) return;
    this.#answered += 1;
    this.#unanswered &= ~(1 << index);
    if (reply.kind === 'failed') this.#failed(address, reply.reason, reply.message);
    else this.#confirmed += 1;
    if (this.#confirmed >= this.#set.quorum || this.#answered === this.#notified) this.onDeadline();
  }

  onDeadline(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#set.answers.cancel(this);
    this.#set.openReleases -= 1;
    const { keys } = this.#lock;
    const { onEnd } = this.#room;
    if (this.#confirmed < Math.min(this.#set.quorum, this.#notified)) {
      for (const { address, index } of this.#set.sessions)
        if ((this.#unanswered & (1 << index)) !== 0)
          this.#failed(address, 'timeout', 'no answer in time');
      const causes = this.#failures ?? [];
      const token = this.#token;
      const emit = () => this.#set.emit({ type: 'release-incomplete', keys, token, causes });
      if (this.#context === undefined) emit();
      else this.#context.runInAsyncScope(emit);
    }
    this.#resolve?.();
    onEnd();
  }

  #failed(address: string, reason: NodeFailureReason, message: string): void {
    const elapsedMs = this.#set.nowMs - this.#startedAtMs;
    (this.#failures ??= []).push({ address, reason, message, elapsedMs });
  }
}
