import type { Lock } from '../../../lib/core/lock.ts';
import { isRedlockError } from '../../../lib/core/errors.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import type { RedlockOptions } from '../../../lib/core/options/options.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { answerQuestions, programSettings } from '../../support/program.ts';
import type { LockAnswer, LockQuestion } from './lock-client.ts';

// A process that does with the shipped lock what it is asked, and ends by itself when it is asked no more.

const { urls, options } = programSettings<{ urls: string[]; options: RedlockOptions }>();
const redlock = new Redlock(
  urls.map((url) => new RedisLockNode(url)),
  options,
);
const locks = new Map<string, Lock>();

async function act({ action, key, waitMs }: LockQuestion): Promise<number> {
  if (action === 'acquire') {
    const lock = await redlock.acquire(key, { wait: waitMs });
    locks.set(key, lock);
    return lock.token.value;
  }
  const lock = locks.get(key);
  if (lock === undefined) throw new Error(`${key} was not acquired here`);
  if (action === 'extend') await lock.extend();
  else {
    locks.delete(key);
    await lock.release();
  }
  return lock.token.value;
}

async function answer(question: LockQuestion): Promise<LockAnswer> {
  try {
    return { outcome: 'done', token: await act(question) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { outcome: isRedlockError(error) ? error.code : 'raw error', message };
  }
}

process.on('disconnect', () => void redlock.close());
redlock.open();
answerQuestions(await redlock.ready(20_000), answer);
