import { LockLostError } from '../errors.ts';
import type { HeldLock } from './held-lock.ts';
import { runInside } from './lock-context.ts';
import type { Lock } from '../lock.ts';
import type { WithLockOptions } from '../options/options.ts';

/**
 * Runs `work` inside the async context of `held` and releases `lock` (the same, or a nested use of it) when it settles.
 * An error of the work is passed on as it is; a loss is told only when the work had none.
 */
export async function runWithLock<Result>(
  service: object,
  held: HeldLock,
  lock: Lock,
  work: (lock: Lock) => Promise<Result> | Result,
  options: WithLockOptions | undefined,
): Promise<Result> {
  let result: Result;
  try {
    result = await runInside(service, held, () => work(lock));
  } catch (error) {
    await lock.release();
    throw error;
  }
  const { lossError } = held;
  await lock.release();
  if (lossError === undefined || options?.onLost === 'ignore') return result;
  throw new LockLostError(
    lossError.keys,
    lossError.reason,
    lossError.token,
    lossError.causes,
    result,
  );
}
