import type { TimerHandle } from './environment.ts';
import type { NodeCause, NodeFailureReason } from './errors.ts';
import type { VoteCollector, VoteReply, VoteRequest } from './open-request.ts';
import type { Quorum } from './quorum.ts';

/** Whether the votes so far decide, when `expected` more answers are worth waiting for. */
export type Decide<Reply> = (replies: readonly (Reply | undefined)[], expected: number) => boolean;

/**
 * One question to all nodes at once, with one deadline. Ends as soon as `decide` says so; slower answers don't change it.
 * Nodes with an earlier answer overdue are asked as well, but waited for only where no quorum is possible without them.
 */
export class VoteRound<Reply extends VoteReply> implements VoteCollector {
  readonly vote: VoteRequest;
  /** Answers by node; frozen when the round ended. */
  readonly replies: (Reply | undefined)[];
  /** Monotonic, from before the first byte. */
  readonly startedAtMs: number;
  endedAtMs = 0;
  readonly #quorum: Quorum;
  readonly #decide: Decide<Reply>;
  readonly #answeredAtMs: number[] = [];
  readonly #silent: boolean[] = [];
  #resolve: (() => void) | undefined;
  #timer: TimerHandle;
  #sending = true;
  /** Answers no longer count. */
  ended = false;

  constructor(quorum: Quorum, vote: VoteRequest, decide: Decide<Reply>) {
    this.#quorum = quorum;
    this.vote = vote;
    this.#decide = decide;
    const size = quorum.sessions.length;
    this.replies = Array.from<Reply | undefined>({ length: size });
    this.startedAtMs = quorum.nowMs;
  }

  /** Asks all nodes; resolves when decided, cancelled, or after `timeoutMs`. */
  run(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      for (const session of this.#quorum.sessions) {
        this.#silent[session.index] = session.isSilent;
        session.ask(this);
      }
      this.#sending = false;
      if (this.#decide(this.replies, this.#expected())) this.#end();
      else
        this.#timer = this.#quorum.environment.timers.set(
          () => this.#end(),
          Math.max(1, timeoutMs),
        );
    });
  }

  collect(index: number, reply: VoteReply): void {
    if (this.ended) return;
    this.replies[index] = reply as Reply;
    this.#answeredAtMs[index] = this.#quorum.nowMs;
    if (!this.#sending && this.#decide(this.replies, this.#expected())) this.#end();
  }

  /** Nodes that may have executed it, as bits: they were sent it, and did not say that nothing was written. */
  get mayHaveWritten(): number {
    let nodes = 0;
    for (let index = 0; index < this.replies.length; index += 1) {
      const reply = this.replies[index];
      const yes = reply === undefined || reply.kind === 'accepted' || reply.kind === 'extended';
      if (yes || (reply.kind === 'failed' && !reply.nothingWritten)) nodes |= 1 << index;
    }
    return nodes;
  }

  /** Ends it now with the answers so far. */
  cancel(): void {
    this.#end();
  }

  /** Per node: why it didn't say yes, or with `tooSlow` that its yes took too long. */
  causes(tooSlow = false): NodeCause[] {
    return this.#quorum.sessions.flatMap((session) => {
      const reply = this.replies[session.index];
      let [reason, message] = describeReply(reply);
      if (reason === undefined && tooSlow)
        [reason, message] = ['timeout', 'voted, but the round took too long for the ttl'];
      if (reason === undefined) return [];
      const until = this.#answeredAtMs[session.index] ?? this.endedAtMs;
      return [{ address: session.address, reason, message, elapsedMs: until - this.startedAtMs }];
    });
  }

  #expected(): number {
    let live = 0;
    let silent = 0;
    let reachable = 0;
    for (let index = 0; index < this.replies.length; index += 1) {
      const reply = this.replies[index];
      if (reply === undefined && this.#silent[index] === true) silent += 1;
      else if (reply === undefined) live += 1;
      if (reply === undefined ? this.#silent[index] !== true : reply.kind !== 'failed')
        reachable += 1;
    }
    return reachable < this.#quorum.votesNeeded ? live + silent : live;
  }

  #end(): void {
    if (this.ended) return;
    this.ended = true;
    this.endedAtMs = this.#quorum.nowMs;
    this.#quorum.environment.timers.clear(this.#timer);
    this.#resolve?.();
  }
}

function describeReply(reply: VoteReply | undefined): [NodeFailureReason | undefined, string] {
  if (reply === undefined) return ['timeout', 'no answer in time'];
  switch (reply.kind) {
    case 'accepted':
    case 'extended':
      return [undefined, ''];
    case 'held':
      return [
        'held',
        `held by another holder for ${reply.remainingMs < 0 ? 'ever (no TTL)' : `${reply.remainingMs} ms more`}`,
      ];
    case 'stale':
      return ['stale', 'has seen a newer ballot'];
    case 'ahead':
      return ['stale', "our clock is more than a day ahead of this node's clock"];
    case 'quarantined':
      return [
        'quarantined',
        `may not vote for ${reply.remainingMs} ms after its restart (restart guard)`,
      ];
    case 'unjoined':
      return ['unreachable', 'has forgotten that we joined'];
    case 'lost':
      return ['lost', 'no longer holds the lock for us'];
    case 'failed':
      return [reply.reason, reply.message];
  }
}
