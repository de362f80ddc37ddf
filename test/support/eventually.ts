import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Repeats `check` until it no longer throws, and resolves with its result; rethrows the last error after `timeoutMs`.
 * @param options `timeoutMs` default 60,000, which only a hang crosses; `everyMs` default 10
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  { timeoutMs = 60_000, everyMs = 10 } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await sleep(everyMs);
  }
}
