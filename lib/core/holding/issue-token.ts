import { FencedUsageError, LockLostError, quoteKeys } from '../errors.ts';
import { FencingToken, type TokenSource } from '../fencing-token.ts';
import type { HeldLock } from './held-lock.ts';

/**
 * Gets the token of a lock that was just granted from `source`, while the lock is held and not extended: a source that hangs
 * costs one ttl. Rejects with the source's own error, or the loss; the caller releases the lock.
 */
export async function issueToken(source: TokenSource, lock: HeldLock): Promise<FencingToken> {
  const { keys } = lock.call;
  const { holder } = lock.grant;
  const { signal } = lock.handle;
  lock.watch();
  const lost = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(notIssued(signal.reason)), { once: true });
  });
  lost.catch(() => undefined);
  const value = await Promise.race([source.issue({ keys, holder, signal }), lost]);
  // A token fetched too late could belong to a lock that has another holder by now.
  lock.handle.ensure();
  if (Number.isSafeInteger(value) && value > 0) return new FencingToken(value, keys, holder);
  throw new FencedUsageError(
    `The token source returned ${String(value)}; it must issue positive safe integers. The lock is released; nothing ran under it.`,
    keys,
  );
}

/** The loss of a lock that nobody had, and whose ballot is no token. */
function notIssued({ keys, reason, token, causes }: LockLostError): LockLostError {
  const message = `Lock ${quoteKeys(keys)} was lost before its holder had it: the token source issued no token in time. Nothing ran under it. Find out why the source is slow, then try again.`;
  return new LockLostError(keys, reason, token, causes, undefined, undefined, message);
}
