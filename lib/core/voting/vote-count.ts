import type { AcquireReply } from '../nodes/lock-node.ts';

/**
 * - `won`: a quorum accepted this ballot.
 * - `reballot`: a quorum would accept a higher ballot.
 * - `failed`: neither is possible any more.
 * - `open`: an answer that is still expected can decide.
 */
export type BallotDecision = 'won' | 'reballot' | 'failed' | 'open';

/** Counts of one ballot over all nodes. */
export interface BallotCounts {
  readonly accepted: number;
  /** Answers STALE or AHEAD: another number would do. */
  readonly wrongNumber: number;
  /** Nodes whose answer is worth waiting for. */
  readonly expected: number;
}

/** Decides as soon as the vote is decided, never waiting for an answer that can't change it. */
export function decideBallot(counts: BallotCounts, quorum: number): BallotDecision {
  const { accepted, wrongNumber, expected } = counts;
  if (accepted >= quorum) return 'won';
  if (accepted + expected >= quorum) return 'open';
  if (accepted + wrongNumber >= quorum) return 'reballot';
  return accepted + wrongNumber + expected >= quorum ? 'open' : 'failed';
}

/**
 * The next ballot after one that was STALE or AHEAD: above every floor seen; where a node's clock set the floor, not below
 * that clock; where we are a day ahead of a node, at its clock (a node that accepted the far number then has to be done without).
 */
export function nextBallot(ballot: number, replies: readonly (AcquireReply | undefined)[]): number {
  let floor = 0;
  let accepted = 0;
  let ahead = 0;
  for (const reply of replies) {
    if (reply?.kind === 'stale')
      floor = Math.max(floor, reply.floor, reply.byClock ? reply.nowMicros : 0);
    else if (reply?.kind === 'held') floor = Math.max(floor, reply.floor);
    else if (reply?.kind === 'accepted') accepted = ballot;
    else if (reply?.kind === 'ahead') ahead = Math.max(ahead, reply.nowMicros, reply.floor);
  }
  return Math.max(floor, ahead > 0 ? ahead : accepted) + 1;
}
