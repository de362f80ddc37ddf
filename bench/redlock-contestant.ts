import type { RedlockOptions } from '../lib/core/options/options.ts';
import { Redlock } from '../lib/core/redlock.ts';
import { RedisLockNode } from '../lib/redis/redis-lock-node.ts';
import type { Contestant } from './contestant.ts';

// Without the restart guard, which would only delay the start: it costs nothing once a node votes.
const OPTIONS: RedlockOptions = { restartGuard: false };

/** An open lock service over these servers. */
export async function openRedlock(
  urls: readonly string[],
  options: RedlockOptions = {},
): Promise<Redlock> {
  const redlock = new Redlock(
    urls.map((url) => new RedisLockNode(url)),
    { ...OPTIONS, ...options },
  );
  redlock.open();
  if (!(await redlock.ready(10_000))) throw new Error('No quorum of nodes within 10 s.');
  return redlock;
}

/** This package, as users get it: default options, automatic extension on. */
export async function connectRedlock(name: string, urls: readonly string[]): Promise<Contestant> {
  const redlock = await openRedlock(urls);
  return {
    name,
    cycle: async (key) => {
      const lock = await redlock.acquire(key);
      await lock.release();
    },
    close: () => redlock.close(),
  };
}

/** The same by `withLock`, which answers when the release was sent. */
export async function connectWithLock(name: string, urls: readonly string[]): Promise<Contestant> {
  const redlock = await openRedlock(urls);
  return {
    name,
    cycle: (key) => redlock.withLock(key, () => undefined),
    close: () => redlock.close(),
  };
}
