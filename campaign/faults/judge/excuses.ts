import { touching, union, type Interval, type Timeline } from './intervals.ts';
import { machineStalls } from './node-health.ts';
import { longStalls, placeOf } from './processes.ts';
import type { Call, RunFacts } from './facts.ts';

/**
 * When a process that did not run may have kept `key` from everybody else, given all calls that name the key, and when each
 * process held it.
 *
 * - Votes for an attempt, an extension or a lock that was on its way stay with the servers as long as nobody takes them
 *   back. What was sent before the process stopped arrives within a node timeout and lives one ttl: so much of a stall is
 *   excused, and as much after a kill. A lock that is waiting to be released stays for no longer than that either.
 * - What it sent to a server that did not read, such as a frozen one, arrives when that reads again. A process that does not
 *   run then can't take it back: so it lives one ttl from there.
 * - A process that lost to these votes pauses before it asks again: as long as it lasted, at most one node timeout.
 *
 * A stall of a process that had nothing to do with the key at that time excuses nothing. But while the network does not
 * run, or so many servers that the others are no quorum, nobody can be granted anything.
 */
export function excusesFor(
  calls: readonly Call[],
  held: ReadonlyMap<string, readonly Interval[]>,
  facts: RunFacts,
): Timeline {
  const { processes, limits, faults } = facts;
  const { ttlMs, nodeTimeoutMs } = limits;
  const involved = new Map<string, Interval[]>();
  const involve = (process: string, { from, to }: Interval): void => {
    const spans = involved.get(process);
    // Commands that it sent at last may still be on their way.
    const span = { from, to: to + nodeTimeoutMs };
    if (spans) spans.push(span);
    else involved.set(process, [span]);
  };
  for (const { asked, answered, endedAt } of calls) {
    involve(asked.process, { from: asked.at, to: answered ? endedAt : Infinity });
  }
  for (const [process, spans] of held) for (const span of spans) involve(process, span);
  const excuses: Interval[] = [];
  const excuse = (from: number, harmedMs: number): void => {
    excuses.push({ from, to: from + harmedMs + Math.min(harmedMs, nodeTimeoutMs) });
  };
  for (const [process, spans] of involved) {
    const involvement = union(spans);
    const { downtime, ranUntil } = processes.get(process)!;
    // Stalls in a row count together, and each long one by itself as well, because the process may have asked in between.
    const ownLong = downtime.filter(({ from, to }) => to - from >= nodeTimeoutMs / 2);
    // Commands that a killed process sent in the middle of its last stall are not taken back either.
    const kill = { from: ranUntil, to: Infinity };
    for (const { from, to } of [...longStalls(downtime, nodeTimeoutMs), ...ownLong, kill]) {
      if (touching(involvement, from, to).length === 0) continue;
      excuse(from, Math.min(to - from, ttlMs + nodeTimeoutMs));
    }
    const away = [...downtime, kill];
    for (const { delivers = false, workers, from, at } of faults) {
      if (!delivers || !(workers?.includes(placeOf(process)) ?? true)) continue;
      if (touching(involvement, from, at).length === 0 || touching(away, at, at).length === 0)
        continue;
      excuse(at, ttlMs);
    }
  }
  for (const { from, to } of machineStalls(facts)) excuse(from, to - from);
  return union(excuses);
}
