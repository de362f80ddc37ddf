import type { NodeSession } from './node-session.ts';
import { waitsForGuard } from './service.ts';

/**
 * - `voting`: joined, and answers.
 * - `quarantined`: joined, and may not vote yet (restart guard).
 * - `silent`: joined, and an answer is overdue.
 * - `refusing`: connected, and its answers are errors, or it forgets that it was joined.
 * - `joining`: connected, and has not said yet that this process may use it, or said no.
 * - `down`: no connection.
 */
export type NodeState = 'voting' | 'quarantined' | 'silent' | 'refusing' | 'joining' | 'down';

/** State of one node, as this process knows it. */
export interface NodeStatus {
  /** Host and port, never a password. */
  readonly address: string;
  /** Whether it votes, or why it does not. */
  readonly state: NodeState;
  /** Time for which it has voted, or has not. */
  readonly sinceMs: number;
  /** Reason why it does not vote; absent when it does. */
  readonly reason?: string;
  /** Time that its latest vote took, with what that waited in this process. Absent before the first. */
  readonly roundTripMs?: number;
  /** Version of the server when it was last examined: at the start of this process, or after a fault. Absent where unknown. */
  readonly version?: string;
  /** Role of the server at that time: a primary is a `master`. Absent where unknown. */
  readonly role?: string;
}

/** State of a lock service, as its process knows it. */
export interface LockStatus {
  /** Answer that `ready(0)` gives: locks can be had, as far as known. No vote is missing, and this process is not closing. */
  readonly ready: boolean;
  /** Service is ready, but not all nodes vote: fewer further failures are tolerated. */
  readonly degraded: boolean;
  /** Number of votes that a quorum lacks now. */
  readonly votesMissing: number;
  /** Nodes in the order of the options. */
  readonly nodes: readonly NodeStatus[];
  /** Number of locks that this process holds. */
  readonly held: number;
  /** Number of calls that wait for their lock. */
  readonly waiting: number;
}

export function statusOf(session: NodeSession, nowMs: number): NodeStatus {
  const { address, node, health, votesAtMs, roundTripMs, askedAtMs = nowMs } = session;
  const { version, role } = node.facts ?? {};
  const state = stateOf(session, nowMs);
  const isOverdue = state === 'silent' && health.reported === 'joined';
  let fromMs = health.changedAtMs;
  if (state === 'voting') fromMs = Math.max(fromMs, votesAtMs);
  if (state === 'silent') fromMs = Math.min(askedAtMs, isOverdue ? nowMs : fromMs);
  const reasons: Partial<Record<NodeState, string>> = {
    voting: '',
    quarantined: waitsForGuard(votesAtMs - nowMs),
  };
  const reason = isOverdue ? 'an answer is overdue' : (reasons[state] ?? health.problem);
  return {
    address,
    state,
    sinceMs: Math.max(0, nowMs - fromMs),
    ...(reason && { reason }),
    ...(roundTripMs >= 0 && { roundTripMs }),
    ...(version && { version }),
    ...(role && { role }),
  };
}

export function stateOf({ state, health, votesAtMs }: NodeSession, nowMs: number): NodeState {
  if (state === 'closed') return 'down';
  if (state !== 'voting') return state;
  if (health.isSilent) return 'silent';
  if (health.reported !== 'joined') return 'refusing';
  return votesAtMs > nowMs ? 'quarantined' : 'voting';
}
