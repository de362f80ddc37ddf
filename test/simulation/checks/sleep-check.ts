import type { ClientProcess, Waiter } from '../world/client-process.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';

/** Messages, the longest jitter after a hint, and stepping back for other processes. */
const LIMIT_MS = 100;

/** Nobody waits while all keys that it wants are free on every node: looks every millisecond. */
export function watchSleepers(run: RunContext, clients: readonly ClientProcess[]): void {
  const { world, servers } = run;
  const isFree = (key: string): boolean =>
    servers.every(({ memory }) => memory.state.locks.get(`lock:${key}`) === undefined);
  world.after(1, () => {
    for (const { name, waiting, alive } of clients) {
      if (!alive) continue;
      for (const waiter of waiting) {
        if (!waiter.keys.every(isFree)) waiter.freeSinceMs = world.nowMs;
        const claimedMs = longestClaimMs(waiter, waiting);
        if (world.nowMs <= waiter.freeSinceMs + claimedMs) waiter.claimedAtMs = world.nowMs;
        if (world.nowMs - Math.max(waiter.freeSinceMs, waiter.claimedAtMs) <= LIMIT_MS) continue;
        broke(
          run,
          'asleep',
          `${name} waits for ${waiter.keys.join()}, free since ${waiter.freeSinceMs.toFixed(3)} ms`,
        );
        waiter.freeSinceMs = world.nowMs;
      }
    }
    watchSleepers(run, clients);
  });
}

/**
 * A set that was passed may claim its keys for as long as that took, which is no longer than it has waited; it may begin as
 * late as somebody has to take the key.
 */
function longestClaimMs({ keys, freeSinceMs }: Waiter, waiting: Iterable<Waiter>): number {
  let longestMs = 0;
  for (const other of waiting) {
    if (other.keys.length === 1 || !other.keys.some((key) => keys.includes(key))) continue;
    longestMs = Math.max(longestMs, 2 * LIMIT_MS + freeSinceMs - other.calledAtMs);
  }
  return longestMs;
}
