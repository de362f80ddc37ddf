import type { NodeSession } from './node-session.ts';
import { waitsForGuard } from './service.ts';

/**
 * - `voting`: joined, and gives locks.
 * - `quarantined`: joined, and gives no locks yet (restart guard).
 * - `silent`: joined, and an answer is overdue.
 * - `refusing`: connected, and its answers are errors, or it forgets that it was joined.
 * - `joining`: connected, and has not said yet that this process may use it, or said no.
 * - `down`: no connection.
 */
export type NodeState = 'voting' | 'quarantined' | 'silent' | 'refusing' | 'joining' | 'down';

/** The state of one node, as this process knows it. */
export interface NodeStatus {
  /** The host and the port, never a password. */
  readonly address: string;
  /** Whether it gives locks, or why it does not. */
  readonly state: NodeState;
  /** The time for which it has given locks, or has not. */
  readonly sinceMs: number;
  /** The reason why it gives no locks; absent when it does. */
  readonly reason?: string;
  /** The time that its latest answer took, including its wait in this process. It is absent before the first. */
  readonly roundTripMs?: number;
  /** The version of the server when it was last examined: at the start of this process, or after a fault. It is absent where unknown. */
  readonly version?: string;
  /** The role of the server at that time: a primary is a `master`. It is absent where unknown. */
  readonly role?: string;
}

/** The state of a lock service, as its process knows it. */
export interface LockStatus {
  /** What `ready(0)` answers: locks can be had, as far as this process knows. No server is missing, and it is not closing. */
  readonly ready: boolean;
  /** The service is ready, but not all servers give locks: fewer further failures are tolerated. */
  readonly degraded: boolean;
  /** How many servers a quorum lacks now. */
  readonly votesMissing: number;
  /** The nodes in the order of the options. */
  readonly nodes: readonly NodeStatus[];
  /** How many locks this process holds. */
  readonly held: number;
  /** How many calls wait for their lock. */
  readonly waiting: number;
}

export function statusOf(session: NodeSession, nowMs: number): NodeStatus {
  const { address, node, health, votesAtMs, roundTripMs, connection } = session;
  const { version, role } = node.facts ?? {};
  const state = stateOf(session, nowMs);
  const isOverdue = state === 'silent' && health.reported === 'joined';
  let fromMs = health.changedAtMs;
  if (state === 'voting') fromMs = Math.max(fromMs, votesAtMs);
  if (state === 'silent')
    fromMs = Math.min(connection.askedAtMs ?? nowMs, isOverdue ? nowMs : fromMs);
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
    ...(roundTripMs !== undefined && { roundTripMs }),
    ...(version && { version }),
    ...(role && { role }),
  };
}

export function stateOf(
  { state, health, votesAtMs, connection }: NodeSession,
  nowMs: number,
): NodeState {
  if (state === 'closed') return 'down';
  if (state !== 'voting') return state;
  if (connection.isSilent) return 'silent';
  if (health.reported !== 'joined') return 'refusing';
  return votesAtMs > nowMs ? 'quarantined' : 'voting';
}
