import { driftMs } from '../../../lib/core/validity.ts';
import { REDLOCK_DEFAULTS } from '../../../lib/core/options/options.ts';
import type { Holding } from '../../history/holding.ts';
import type { Call } from './calls.ts';
import { demandFor } from './demand.ts';
import { excusesFor } from './excuses.ts';
import { complement, coveredMs, intersection, union } from './intervals.ts';
import type { Interval, Timeline } from './intervals.ts';
import type { RunFacts } from './run-facts.ts';

/** What became of one key in the course of a run. */
export interface KeyTimeline {
  readonly key: string;
  /** Grants of locks that contain it and were valid when they were received, in order. */
  readonly holdings: readonly Holding[];
  /** Somebody has it, or the servers still keep it for somebody. */
  readonly busy: Timeline;
  /** At least one process asks for it. */
  readonly demand: Timeline;
  /** Nobody has it and somebody asks for it. */
  readonly wanted: Timeline;
  /** What is not held against anybody. */
  readonly excuses: Timeline;
}

/** The timelines of all keys that somebody asked for. */
export function keyTimelines(facts: RunFacts): KeyTimeline[] {
  const holdings = byKey(
    facts.holdings.filter(({ granted, endedAt }) => endedAt > granted.at),
    ({ granted }) => granted.keys,
  );
  return Array.from(
    byKey(facts.calls, ({ keys }) => keys),
    ([key, calls]) => timelineOf(key, calls, holdings.get(key) ?? [], facts),
  );
}

/** How much of `from`..`to` nothing excuses. */
export function unexcusedMs({ excuses }: KeyTimeline, { from, to }: Interval): number {
  return to - from - coveredMs(excuses, from, to);
}

function timelineOf(
  key: string,
  calls: readonly Call[],
  holdings: readonly Holding[],
  facts: RunFacts,
): KeyTimeline {
  const spans = holdings.map((holding) => ({
    from: holding.granted.at,
    to: keptUntil(holding, facts),
  }));
  const held = new Map<string, Interval[]>();
  for (const [index, { granted }] of holdings.entries()) {
    const own = held.get(granted.process);
    if (own) own.push(spans[index]!);
    else held.set(granted.process, [spans[index]!]);
  }
  const busy = union(spans);
  const demand = demandFor(calls, facts.processes);
  return {
    key,
    holdings,
    busy,
    demand,
    wanted: intersection(complement(busy), demand),
    excuses: excusesFor(calls, held, facts),
  };
}

/**
 * Whoever let go in time gave it back to the servers at that moment. Otherwise they keep it until it expires there, which
 * is the drift later than the holder stops believing; also when the release was not confirmed by a quorum, which shows in
 * that it took a whole node timeout or was never answered.
 */
function keptUntil(
  { validUntil, released, lost, granted }: Holding,
  { releaseAnsweredAt, limits }: RunFacts,
): number {
  const letGoAt = Math.min(released?.at ?? Infinity, lost?.at ?? Infinity);
  const answeredAt = releaseAnsweredAt.get(granted.holder) ?? Infinity;
  const wasLost = lost !== undefined && lost.at === letGoAt;
  const confirmed = wasLost || answeredAt - letGoAt < limits.nodeTimeoutMs;
  if (letGoAt < validUntil && confirmed) return letGoAt;
  return validUntil + driftMs(limits.ttlMs, REDLOCK_DEFAULTS.driftFactor);
}

function byKey<Item>(
  items: readonly Item[],
  keysOf: (item: Item) => readonly string[],
): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    for (const key of keysOf(item)) {
      const group = groups.get(key);
      if (group) group.push(item);
      else groups.set(key, [item]);
    }
  }
  return groups;
}
