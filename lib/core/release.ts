import type { NodeCause } from './errors.ts';
import { lockNames } from './lock-names.ts';
import type { ReleaseRequest } from './lock-node.ts';
import type { Quorum } from './quorum.ts';

/**
 * Tells all nodes that a granted lock is over. Resolves when a quorum answered, when everybody did, or after the node
 * timeout; never rejects. A node that was not told is told later (see ReleaseOutbox), and its key dies with the ttl.
 */
export function releaseGranted(
  quorum: Quorum,
  lock: { readonly keys: readonly string[]; readonly nonce: string; readonly token: number },
  timing: { readonly ttlMs: number; readonly nodeTimeoutMs: number },
): Promise<void> {
  const request: ReleaseRequest = {
    names: lockNames(quorum.options.keyPrefix, lock.keys),
    nonce: lock.nonce,
    granted: true,
    notify: true,
  };
  const startedAtMs = quorum.nowMs;
  return new Promise((resolve) => {
    let confirmed = 0;
    let answered = 0;
    let done = false;
    const failures: NodeCause[] = [];
    const finish = () => {
      if (done) return;
      done = true;
      quorum.environment.timers.clear(timer);
      if (confirmed < quorum.votesNeeded) {
        quorum.emit({
          type: 'release-incomplete',
          keys: lock.keys,
          token: lock.token,
          causes: failures,
        });
      }
      resolve();
    };
    const timer = quorum.environment.timers.set(finish, timing.nodeTimeoutMs);
    for (const { address, index } of quorum.sessions) {
      quorum.sessions[index]?.release(request, timing.ttlMs, (failure) => {
        answered += 1;
        if (failure === undefined) confirmed += 1;
        else
          failures.push({
            address,
            reason: failure.reason,
            message: failure.message,
            elapsedMs: quorum.nowMs - startedAtMs,
          });
        if (confirmed >= quorum.votesNeeded || answered === quorum.sessions.length) finish();
      });
    }
  });
}
