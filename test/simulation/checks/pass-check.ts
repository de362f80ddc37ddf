import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';

/** Grants of one process in a row begin within that, on slow ways too. */
const LONGEST_ROW_MS = 40 + 30;
/** Share of the milliseconds in which the last one of several servers forgets who waits. */
const LOST_QUEUES = 0.005;

/**
 * Checks every millisecond that no other process has a key for two rows before one that waits has it for one. A process
 * waits while a quorum of servers has it in the queue of the key; one that was named, and came too late, begins again.
 */
export function watchPasses(run: RunContext, chance = run.chance.branch('queues')): void {
  const { world, servers, plan, grants } = run;
  const lock = `lock:${plan.keys[0]}`;
  /** Tickets of each process that waits, by its mark, and how many rows each other one had since. */
  const waiting = new Map<
    string,
    { readonly tickets: number[]; readonly rows: Map<string, number> }
  >();
  let row = { mark: '', atMs: -Infinity };
  let seen = 0;
  let crashes = 0;

  const granted = (mark: string, atMs: number): void => {
    const isNewRow = row.mark !== mark || atMs - row.atMs > LONGEST_ROW_MS;
    waiting.delete(mark);
    if (!isNewRow) return;
    row = { mark, atMs };
    for (const [other, { rows }] of waiting) {
      const had = (rows.get(mark) ?? 0) + 1;
      rows.set(mark, had);
      if (had === 2) broke(run, 'passed-twice', `${other} waits while ${mark} has a second row`);
    }
  };
  const look = (): void => {
    // Turn after a holder that died is promised to nobody.
    if (run.counts.crashes > crashes) waiting.clear();
    crashes = run.counts.crashes;
    for (; seen < grants.length; seen += 1)
      granted(grants[seen]!.holder.slice(0, 8), grants[seen]!.atMs);
    if (servers.length > 1 && chance.happens(LOST_QUEUES))
      servers.at(-1)!.memory.state.queues.delete(lock);
    const places = new Map<string, number[]>();
    for (const { memory } of servers)
      for (const { member, ticket } of memory.state.queues.get(lock) ?? []) {
        const mark = member.split(' ')[0]!;
        places.set(mark, [...(places.get(mark) ?? []), ticket]);
      }
    for (const [mark, { tickets }] of waiting) {
      const now = places.get(mark) ?? [];
      const isLater = now.some((ticket) => ticket > Math.max(...tickets));
      if (now.length < plan.quorum || isLater) waiting.delete(mark);
    }
    for (const [mark, tickets] of places)
      if (tickets.length >= plan.quorum && !waiting.has(mark))
        waiting.set(mark, { tickets, rows: new Map() });
    world.after(1, look);
  };
  world.after(1, look);
}
