import { FencedUsageError, quoteKeys, type LockLostError } from '../errors.ts';
import { FencingToken } from '../fencing-token.ts';
import type { HeldLock } from './held-lock.ts';
import type { TokenSource } from '../fencing-token.ts';

/**
 * Gets the token of a lock that was just granted from `source`, while the lock is held and not extended: a source that
 * hangs costs one ttl. Rejects with the source's own error, the loss, or `cancelled`'s reason; the caller releases the lock.
 */
export async function issueToken(
  source: TokenSource,
  lock: HeldLock,
  cancelled: AbortSignal,
): Promise<FencingToken> {
  const { keys, holder, signal } = lock;
  const ended = new AbortController();
  const interrupted = new Promise<never>((_, reject) => {
    const once = { once: true, signal: ended.signal };
    signal.addEventListener('abort', () => reject(notIssued(signal.reason)), once);
    cancelled.addEventListener('abort', () => reject(cancelled.reason), once);
  });
  interrupted.catch(() => undefined);
  try {
    cancelled.throwIfAborted();
    const issued = Promise.resolve(source.issue({ keys, holder, signal }));
    const value = await Promise.race([issued, interrupted]);
    // A token fetched too late could belong to a lock that has another holder by now.
    lock.ensure();
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new FencedUsageError(
        `The token source returned ${String(value)}; it must issue positive safe integers. The lock is released; nothing ran under it.`,
        keys,
      );
    }
    return new FencingToken(value, keys, holder);
  } finally {
    ended.abort();
  }
}

/** Nobody had the lock, and its ballot is no token. */
function notIssued(loss: LockLostError): LockLostError {
  loss.message = `Lock ${quoteKeys(loss.keys)} was lost before its holder had it: the token source issued no token within the ttl. Nothing ran under it. Look why the source is slow; then retry.`;
  return loss;
}
