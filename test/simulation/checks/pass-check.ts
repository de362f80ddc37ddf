import { slotKey } from '../../../lib/core/options/lock-keys.ts';
import { markOf } from '../../../lib/core/nodes/node-names.ts';
import { broke } from '../world/run-context.ts';
import type { CompletedGrant, RunContext } from '../world/run-context.ts';

/** Grants of one process in a row begin within that, on slow ways too. */
const LONGEST_ROW_MS = 40 + 30;
/** Two slots that are kept for a process at once may both be granted there: that is one turn. */
const ONE_TURN_MS = 30;
/** Share of the milliseconds in which the last one of several servers forgets who waits. */
const LOST_QUEUES = 0.005;

/**
 * Checks every millisecond that no other process has a key for two rows before one that waits has it for one. A process
 * waits while a quorum of servers has it in the queue of the key; one that was named, and came too late, begins again. A key with
 * permits has a queue for each slot, and a process that waits stands in all of them.
 *
 * The order of a hand-over is not promised after a server lost its queue: it is a vote for those who came later. One such server
 * changes nothing. With a second one, whose turn ran out, so that its vote is anybody's, it takes the turn of those it forgot.
 */
export function watchPasses(run: RunContext, chance = run.chance.branch('queues')): void {
  const { world, servers, plan, grants } = run;
  const [key] = plan.keys as [string];
  const keys = Array.from({ length: plan.permits ?? 0 }, (_, slot) => slotKey(key, slot));
  const locks = (plan.permits === undefined ? [key] : keys).map((name) => `lock:${name}`);
  /** Tickets of each process that waits, by its mark, and how many rows each other one had since. */
  const waiting = new Map<
    string,
    { readonly tickets: number[]; readonly rows: Map<string, number[]> }
  >();
  /** Processes, by their marks, whose places the last server has lost. */
  const forgotten = new Set<string>();
  /** Attempts that asked another server while it kept the key for none of those in line. */
  const unnamed = new Set<string>();
  const latest = new Map<string, { readonly mark: string; readonly atMs: number }>();
  let seen = 0;
  let crashes = 0;

  for (const server of servers.slice(0, -1))
    server.onCommand = (words) => {
      const isUnnamed = locks.some(
        (lock) => server.holderOf(lock) === null && server.queueOf(lock).length > 0,
      );
      if (isUnnamed) for (const holder of server.redis.attemptsIn(words)) unnamed.add(holder);
    };
  const granted = ({ key: name, holder, atMs }: CompletedGrant): void => {
    const mark = markOf(holder);
    const row = latest.get(name);
    const isNewRow = row?.mark !== mark || atMs - row.atMs > LONGEST_ROW_MS;
    waiting.delete(mark);
    forgotten.delete(mark);
    if (!isNewRow) return;
    latest.set(name, { mark, atMs });
    for (const [other, { rows }] of waiting) {
      if (unnamed.has(holder) && forgotten.has(other)) continue;
      const had = rows.get(mark) ?? [];
      const isOneTurn = plan.permits !== undefined && atMs - (had[0] ?? atMs) < ONE_TURN_MS;
      rows.set(mark, [...had, atMs]);
      if (had.length > 0 && !isOneTurn)
        broke(run, 'passed-twice', `${other} waits while ${mark} has a second row`);
    }
  };
  const look = (): void => {
    // Turn after a holder that died is promised to nobody.
    if (run.counts.crashes > crashes) waiting.clear();
    crashes = run.counts.crashes;
    for (; seen < grants.length; seen += 1) granted(grants[seen]!);
    const last = servers.at(-1)!;
    const isLost = servers.length > 1 && chance.happens(LOST_QUEUES);
    for (const lock of locks) {
      for (const { member } of last.queueOf(lock))
        if (isLost) forgotten.add(markOf(member));
        else forgotten.delete(markOf(member));
      if (isLost) last.redis.data.call('DEL', `${lock}#queue`);
    }
    const queues = locks.map((lock) => placesOf(servers, lock));
    const [places] = queues as [Map<string, number[]>];
    const isInLine = (mark: string): boolean =>
      queues.every((queue) => (queue.get(mark) ?? []).length >= plan.quorum);
    for (const [mark, { tickets }] of waiting) {
      const isLater = places.get(mark)?.some((ticket) => ticket > Math.max(...tickets));
      if (!isInLine(mark) || isLater) waiting.delete(mark);
    }
    for (const [mark, tickets] of places)
      if (isInLine(mark) && !waiting.has(mark)) waiting.set(mark, { tickets, rows: new Map() });
    world.after(1, look);
  };
  world.after(1, look);
}

/** Tickets of each process at the servers that have it in the queue, by its mark. */
function placesOf(servers: RunContext['servers'], lock: string): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (const server of servers)
    for (const { member, ticket } of server.queueOf(lock)) {
      const mark = markOf(member);
      places.set(mark, [...(places.get(mark) ?? []), ticket]);
    }
  return places;
}
