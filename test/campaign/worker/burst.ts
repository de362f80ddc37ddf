import { isRedlockError } from '../../../lib/core/errors.ts';
import { historyNow } from '../../history/lock-history.ts';
import type { CallerTools } from './caller.ts';

/**
 * Asks for `count` keys at once that no one else wants, and gives each back. Resolves with how many calls ended with what.
 * Only calls that failed are written down: no one else has to do with the other locks.
 */
export async function burst(
  { redlock, recorder, settings }: CallerTools,
  count: number,
  waitMs: number,
): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const useOnce = async (index: number): Promise<void> => {
    const at = historyNow();
    const keys = [`burst-${index}`];
    let outcome = 'granted';
    try {
      const lock = await redlock.acquire(keys, { wait: waitMs });
      await lock.release();
    } catch (error) {
      outcome = isRedlockError(error) ? error.code : 'raw-error';
      const call = `${settings.name}.${keys.join()}`;
      recorder.append({ type: 'asked', call, keys, at, waitMs });
      const message = String(error);
      recorder.append({ type: 'answered', call, at: historyNow(), outcome, message });
    }
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: count }, (_, index) => useOnce(index)));
  return outcomes;
}
