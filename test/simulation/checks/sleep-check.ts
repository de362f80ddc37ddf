import type { ClientProcess } from '../world/client-process.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';

/** Messages, the longest jitter after a hint, and stepping back for other processes. */
const LIMIT_MS = 100;
/** A set that was passed may claim its keys for as long as that took. */
const CLAIM_LIMIT_MS = 500;

/** Nobody waits while all keys that it wants are free on every node: looks every millisecond. */
export function watchSleepers(run: RunContext, clients: readonly ClientProcess[]): void {
  const { world, servers } = run;
  const isFree = (key: string): boolean =>
    servers.every(({ memory }) => memory.state.locks.get(`lock:${key}`) === undefined);
  world.after(1, () => {
    for (const { name, waiting } of clients) {
      for (const waiter of waiting) {
        if (!waiter.keys.every(isFree)) waiter.freeSinceMs = world.nowMs;
        const others = [...waiting].filter(({ keys }) =>
          keys.some((key) => waiter.keys.includes(key)),
        );
        const limitMs = others.some(({ keys }) => keys.length > 1) ? CLAIM_LIMIT_MS : LIMIT_MS;
        if (world.nowMs - waiter.freeSinceMs <= limitMs) continue;
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
