import { FencedUsageError } from '../errors.ts';
import { FencingToken } from '../fencing-token.ts';
import type { HeldLock } from './held-lock.ts';
import type { TokenSource } from '../token-source.ts';

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
    for (const cause of [signal, cancelled]) {
      cause.addEventListener('abort', () => reject(cause.reason), {
        once: true,
        signal: ended.signal,
      });
    }
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
