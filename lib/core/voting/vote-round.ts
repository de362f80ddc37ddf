import { inModuleContext } from '../system-environment.ts';
import type { NodeCause, NodeFailureReason } from '../errors.ts';
import { Deadline, LATE_MS } from '../deadlines.ts';
import type { VoteReply, VoteRequest } from '../nodes/lock-node.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { waitsForGuard, type VoteCollector } from '../nodes/service.ts';
import { VoteCount } from './vote-count.ts';

/**
 * The drift by which the clocks of nodes and client may have run apart in one ttl, plus 2 ms for the resolution of Redis' expiry.
 * Source: "Distributed Locks with Redis" (redis.io), CLOCK_DRIFT.
 */
export function driftMs(ttlMs: number, driftFactor: number): number {
  return ttlMs * driftFactor + 2;
}

/** The instant at which a lock, asked for at `startedAtMs`, is certainly still held by the nodes that said yes. */
export function validityEndMs(startedAtMs: number, ttlMs: number, driftFactor: number): number {
  return startedAtMs + ttlMs - driftMs(ttlMs, driftFactor);
}

/** A grant with less than this share of the ttl left is of no use: it counts as a failed try. */
export const MINIMUM_VALIDITY = 0.1;

/**
 * A question to all nodes at once, with one deadline. It ends as soon as the votes decide; slower answers don't change it. Nodes
 * with an earlier answer overdue are asked as well, but waited for only where no quorum is possible without them.
 */
export class VoteRound extends Deadline implements VoteCollector {
  readonly votes: VoteCount;
  /** The moment before the first byte: what the nodes promise counts from here. */
  startedAtMs = 0;
  endedAtMs = 0;
  /** The timeout of the answers: a whole one counts from when the bytes were handed to the sockets. */
  timeoutMs = 0;
  ended = false;
  /** Answers ended it, and not the deadline or a cancel. */
  isDecided = false;
  readonly #nodes: NodeSet;
  readonly #owner: { ended(round: VoteRound): void };
  #isSending = true;
  /** When its bytes were handed to the sockets, if they were collected before. */
  #sentAtMs = 0;

  constructor(
    nodes: NodeSet,
    readonly vote: VoteRequest,
    owner: { ended(round: VoteRound): void },
  ) {
    super();
    this.#nodes = nodes;
    this.votes = new VoteCount(nodes.sessions.length, nodes.options.quorum);
    this.#owner = owner;
  }

  /** Asks all nodes; it ends when decided, cancelled, or after `timeoutMs`, perhaps before this returns. */
  start(timeoutMs: number, nowMs: number): void {
    const { sessions, answers } = this.#nodes;
    this.startedAtMs = nowMs;
    this.timeoutMs = Math.max(1, timeoutMs);
    let isCollected = false;
    for (const session of sessions) {
      if (session.connection.isSilent) this.votes.silent(session.index);
      if (session.ask(this, nowMs)) isCollected = true;
    }
    this.#isSending = false;
    const writtenAtMs = this.#nodes.clock.nowMs;
    if (isCollected) this.#nodes.outgoing.flushLater(this);
    else this.#left(writtenAtMs);
    if (this.votes.isDecided(this.vote.kind)) this.#end(true);
    // The time that writing took is not taken from the nodes.
    else answers.set(this, this.timeoutMs, writtenAtMs);
  }

  /** The bytes have left: from now on the nodes have their whole time to answer. */
  sent(nowMs: number): void {
    this.#sentAtMs = nowMs;
    this.#left(nowMs);
    if (!this.ended && nowMs - this.startedAtMs >= 1)
      this.#nodes.answers.set(this, this.timeoutMs, nowMs);
  }

  /** The time that its bytes waited to leave this process since `sinceMs`. */
  heldBackMs(sinceMs: number): number {
    return Math.max(0, this.#sentAtMs - Math.max(this.startedAtMs, sinceMs));
  }

  collect(index: number, reply: VoteReply): void {
    if (this.ended) return;
    this.votes.add(index, reply);
    if (!this.#isSending && this.votes.isDecided(this.vote.kind)) this.#end(true);
  }

  cancel(): void {
    this.#end(false);
  }

  onDeadline(): void {
    // The next round may begin before the deadlines of the answers are called: a node that owes one is silent for it.
    for (const session of this.#nodes.sessions)
      if (this.votes.replies[session.index] === undefined) session.connection.checkSilence();
    this.#end(false);
  }

  /**
   * Why each node didn't say yes so far, or, with `tooSlow`, that its yes took too long. A round that ended long after its timeout
   * could not end earlier, because this process did not run: that is no fault of the nodes, and comes first.
   */
  causes(tooSlow = false): NodeCause[] {
    const elapsedMs = (this.ended ? this.endedAtMs : this.#nodes.clock.nowMs) - this.startedAtMs;
    const pausedMs = Math.floor(elapsedMs - this.timeoutMs);
    const isOwnFault = tooSlow && pausedMs > LATE_MS;
    const causes = this.#nodes.sessions.flatMap(({ address, index, votesAtMs }): NodeCause[] => {
      const reply = this.votes.replies[index];
      let [reason, message] = describeReply(reply);
      if (reason === undefined && tooSlow && !isOwnFault)
        [reason, message] = ['timeout', 'answered, but too late for the ttl'];
      if (this.isDecided && reply === undefined && !this.votes.isSilent(index))
        [reason, message] = ['not-awaited', 'not waited for: the other servers had decided'];
      // The call may have waited since the node said how long its quarantine lasts.
      const leftMs = votesAtMs - this.#nodes.clock.nowMs;
      if (reason === 'quarantined' || (reason === 'not-awaited' && leftMs > 0)) {
        [reason, message] = ['quarantined', waitsForGuard(Math.max(0, leftMs))];
      }
      return reason === undefined ? [] : [{ address, reason, message, elapsedMs }];
    });
    if (!isOwnFault) return causes;
    const message = `did not run for ${pausedMs} ms, and too little was left of the ttl of a lock that it had got`;
    const said = causes.filter(({ reason }) => reason !== 'not-awaited');
    return [{ address: 'this process', reason: 'timeout', message, elapsedMs }, ...said];
  }

  /** A node owes no answer to what this process had not written yet. */
  #left(nowMs: number): void {
    if (nowMs - this.startedAtMs < 1) return;
    for (const session of this.#nodes.sessions) session.connection.left(this.startedAtMs, nowMs);
  }

  #end(isDecided: boolean): void {
    if (this.ended) return;
    this.isDecided = isDecided;
    // A decided round did not wait for the nodes that had time left: their silence is no sign of an outage.
    if (isDecided) this.votes.pending = this.votes.liveOpen;
    this.endedAtMs = this.#nodes.clock.checkedNowMs;
    this.ended = true;
    this.#nodes.answers.cancel(this);
    const { quorum } = this.#nodes;
    if (this.votes.voted >= this.votes.quorum) {
      quorum.lastAnswerAtMs = this.endedAtMs;
      if (quorum.outage !== undefined) inModuleContext(() => quorum.look());
    }
    this.#owner.ended(this);
  }
}

function describeReply(reply: VoteReply | undefined): [NodeFailureReason | undefined, string] {
  if (reply === undefined) return ['timeout', 'no answer in time'];
  switch (reply.kind) {
    case 'accepted':
    case 'extended':
      return [undefined, ''];
    case 'held': {
      const time =
        reply.remainingMs < 0 ? 'without end (no TTL)' : `for ${reply.remainingMs} ms more`;
      return ['held', reply.why ?? `held by someone else ${time}`];
    }
    case 'stale':
      return ['stale', 'has answered a newer call for this lock'];
    case 'ahead':
      return ['stale', "the clock of this process is more than a day ahead of the server's"];
    case 'quarantined':
      return ['quarantined', ''];
    case 'unjoined':
      return ['unreachable', 'has forgotten that this process joined'];
    case 'lost':
      return ['lost', reply.why ?? 'no longer has the lock of this process'];
    case 'failed':
      return [reply.reason, reply.message];
  }
}
