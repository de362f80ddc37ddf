import { Redlock } from '../../lib/core/redlock.ts';
import type { LockLostError } from '../../lib/core/errors.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { answerQuestions, programSettings } from '../support/program.ts';

export interface HolderQuestion {
  readonly key: string;
}

/** Life of a lock that was held until it was lost. */
export interface HeldSpan {
  readonly reason: string;
  readonly revoked: string | undefined;
  readonly message: string;
  /** When the work was notified, and how long it could have relied on the lock, by the wall clock. */
  readonly stoppedAtMs: number;
  readonly validUntilMs: number;
}

const { urls, ttlMs } = programSettings<{ urls: string[]; ttlMs: number }>();
const redlock = new Redlock(
  urls.map((url) => new RedisLockNode(url)),
  { ttl: ttlMs, restartGuard: false },
);
redlock.open();
await redlock.ready(20_000);

answerQuestions('ready', async ({ key }: HolderQuestion): Promise<HeldSpan> => {
  const lock = await redlock.acquire(key);
  let validUntilMs = 0;
  const look = setInterval(() => {
    if (lock.isHeld) validUntilMs = Date.now() + lock.remainingMs;
  }, 1);
  await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
  clearInterval(look);
  const { reason, revoked, message } = lock.signal.reason as LockLostError;
  return { reason, revoked, message, stoppedAtMs: Date.now(), validUntilMs };
});
