import type { FailedAttempt } from './attempt.ts';
import { LockBusyError, QuorumUnavailableError } from '../errors.ts';

/**
 * What a failed try means: contention when a quorum of nodes could have voted for us but for other holders, and an
 * outage (too few nodes, quarantine, too slow) otherwise. A node that was not waited for could have voted.
 */
export function acquireError(
  keys: readonly string[],
  waitedMs: number,
  votesNeeded: number,
  failed: FailedAttempt,
): LockBusyError | QuorumUnavailableError {
  let healthy = failed.pending;
  let votes = 0;
  const remaining: number[] = [];
  for (const reply of failed.replies) {
    if (reply?.kind === 'held') {
      healthy += 1;
      if (reply.remainingMs >= 0) remaining.push(reply.remainingMs);
    } else if (reply?.kind === 'accepted' || reply?.kind === 'stale' || reply?.kind === 'ahead') {
      healthy += 1;
      votes += 1;
    }
  }
  if (failed.tooSlow || healthy < votesNeeded) {
    return new QuorumUnavailableError(
      keys,
      waitedMs,
      votesNeeded,
      failed.replies.length,
      failed.causes(),
    );
  }
  remaining.sort((a, b) => a - b);
  const missing = Math.max(1, votesNeeded - votes);
  return new LockBusyError(keys, waitedMs, remaining[missing - 1], failed.causes());
}
