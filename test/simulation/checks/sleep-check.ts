import type { ClientProcess } from '../world/client-process.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';

/** Messages, the longest jitter after a turn, and the time for which a set keeps a free key. */
const LIMIT_MS = 100;

/** Checks every millisecond that nobody waits while all keys that it wants, or a slot of its key, are free on every node. */
export function watchSleepers(run: RunContext, clients: readonly ClientProcess[]): void {
  const { world, servers } = run;
  const isFree = (key: string): boolean =>
    servers.every((server) => server.holderOf(`lock:${key}`) === null);
  world.after(1, () => {
    for (const { name, waiting, alive } of clients) {
      if (!alive) continue;
      for (const way of [...waiting].flatMap(({ ways }) => ways)) {
        if (!way.keys.every(isFree)) way.freeSinceMs = world.nowMs;
        if (world.nowMs - way.freeSinceMs <= LIMIT_MS) continue;
        broke(
          run,
          'asleep',
          `${name} waits for ${way.keys.join()}, free since ${way.freeSinceMs.toFixed(3)} ms`,
        );
        way.freeSinceMs = world.nowMs;
      }
    }
    watchSleepers(run, clients);
  });
}
