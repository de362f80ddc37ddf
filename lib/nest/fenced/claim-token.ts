import type { Lock } from '../../core/lock.ts';
import type { ModuleFence } from '../module-fence.ts';

/**
 * Brings the lock's token to the fence. A claim may wait for a paused holder's transaction; it is waited for only while the
 * lock is held.
 *
 * @throws StaleTokenError when a newer holder reached the resource
 * @throws LockLostError when the lock was lost meanwhile
 */
export async function claimToken(fence: ModuleFence, lock: Lock): Promise<void> {
  lock.ensure();
  const claimed = new AbortController();
  const lost = new Promise<never>((_resolve, reject) => {
    const onLoss = () => reject(lock.signal.reason as Error);
    lock.signal.addEventListener('abort', onLoss, { once: true, signal: claimed.signal });
  });
  try {
    await Promise.race([fence.claim(lock.token), lost]);
  } finally {
    claimed.abort();
  }
  lock.ensure();
}
