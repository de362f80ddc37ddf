import { Deadline } from '../nodes/deadlines.ts';
import type { NodeCause, NodeFailureReason } from '../errors.ts';
import type { VoteCollector, VoteReply, VoteRequest } from '../nodes/open-request.ts';
import type { Quorum } from '../nodes/node-set.ts';

/** Whether the votes so far decide, when `expected` more answers are worth waiting for. */
export type Decide<Reply> = (replies: readonly (Reply | undefined)[], expected: number) => boolean;

/**
 * One question to all nodes at once, with one deadline. Ends as soon as `decide` says so; slower answers don't change it.
 * Nodes with an earlier answer overdue are asked as well, but waited for only where no quorum is possible without them.
 */
export class VoteRound<Reply extends VoteReply> extends Deadline implements VoteCollector {
  readonly vote: VoteRequest;
  /** Answers by node; frozen when the round ended. */
  readonly replies: (Reply | undefined)[] = [];
  /** Monotonic, from before the first byte. */
  startedAtMs = 0;
  endedAtMs = 0;
  /** Answers no longer count. */
  ended = false;
  readonly #quorum: Quorum;
  readonly #decide: Decide<Reply>;
  readonly #onEnd: () => void;
  /** When those answered that did not say yes. */
  #refusedAtMs: number[] | undefined;
  /** Nodes that were silent when asked, as bits. */
  #silent = 0;
  #sending = true;
  /** Ended by answers, not by the deadline. */
  #decided = false;

  constructor(quorum: Quorum, vote: VoteRequest, decide: Decide<Reply>, onEnd: () => void) {
    super();
    this.#quorum = quorum;
    this.vote = vote;
    this.#decide = decide;
    this.#onEnd = onEnd;
  }

  /** Asks all nodes; `onEnd` is called once, when decided, cancelled, or after `timeoutMs`, perhaps before this returns. */
  start(timeoutMs: number): void {
    const { sessions, deadlines } = this.#quorum;
    this.startedAtMs = this.#quorum.nowMs;
    for (let index = 0; index < sessions.length; index += 1) this.replies.push(undefined);
    for (const session of sessions) {
      if (session.isSilentAt(this.startedAtMs)) this.#silent |= 1 << session.index;
      session.ask(this, this.startedAtMs);
    }
    this.#sending = false;
    if (this.#decide(this.replies, this.#expected())) this.#endDecided();
    else deadlines.set(this, Math.max(1, timeoutMs), this.startedAtMs);
  }

  collect(index: number, reply: VoteReply): void {
    if (this.ended) return;
    this.replies[index] = reply as Reply;
    if (reply.kind !== 'accepted' && reply.kind !== 'extended') {
      (this.#refusedAtMs ??= [])[index] = this.#quorum.nowMs;
    }
    if (!this.#sending && this.#decide(this.replies, this.#expected())) this.#endDecided();
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

  /** Nodes that had time left to answer when the others decided: they are no sign of an outage. */
  get pending(): number {
    let count = 0;
    for (let index = 0; index < this.replies.length; index += 1)
      if (this.#isPending(index)) count += 1;
    return count;
  }

  /** Ends it now with the answers so far. */
  cancel(): void {
    this.#end();
  }

  onDeadline(): void {
    this.#end();
  }

  /** Per node: why it didn't say yes, or with `tooSlow` that its yes took too long. */
  causes(tooSlow = false): NodeCause[] {
    return this.#quorum.sessions.flatMap(({ address, index }) => {
      let [reason, message] = describeReply(this.replies[index]);
      if (reason === undefined && tooSlow) {
        [reason, message] = ['timeout', 'voted, but the round took too long for the ttl'];
      }
      if (this.#isPending(index)) message = 'not waited for: the other nodes decided';
      if (reason === undefined) return [];
      const elapsedMs = (this.#refusedAtMs?.[index] ?? this.endedAtMs) - this.startedAtMs;
      return [{ address, reason, message, elapsedMs }];
    });
  }

  #expected(): number {
    let live = 0;
    let silent = 0;
    let reachable = 0;
    for (let index = 0; index < this.replies.length; index += 1) {
      const reply = this.replies[index];
      const isSilent = (this.#silent & (1 << index)) !== 0;
      if (reply === undefined && isSilent) silent += 1;
      else if (reply === undefined) live += 1;
      if (reply === undefined ? !isSilent : reply.kind !== 'failed') reachable += 1;
    }
    return reachable < this.#quorum.votesNeeded ? live + silent : live;
  }

  #isPending(index: number): boolean {
    const isSilent = (this.#silent & (1 << index)) !== 0;
    return this.#decided && !isSilent && this.replies[index] === undefined;
  }

  #endDecided(): void {
    this.#decided = true;
    this.#end();
  }

  #end(): void {
    if (this.ended) return;
    this.ended = true;
    this.endedAtMs = this.#quorum.nowMs;
    this.#quorum.deadlines.cancel(this);
    this.#onEnd();
  }
}

function describeReply(reply: VoteReply | undefined): [NodeFailureReason | undefined, string] {
  if (reply === undefined) return ['timeout', 'no answer in time'];
  switch (reply.kind) {
    case 'accepted':
    case 'extended':
      return [undefined, ''];
    case 'held': {
      const time = reply.remainingMs < 0 ? 'ever (no TTL)' : `${reply.remainingMs} ms more`;
      return ['held', `held by another holder for ${time}`];
    }
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
