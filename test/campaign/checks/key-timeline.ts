import { driftMs } from '../../../lib/core/voting/vote-round.ts';
import { REDLOCK_DEFAULTS } from '../../../lib/core/options/options.ts';
import { groupBy } from '../../history/group-by.ts';
import type { Holding } from '../../history/holding.ts';
import { excusesFor } from './excuses.ts';
import { complement, coveredMs, difference, intersection, union } from './intervals.ts';
import type { Interval, Timeline } from './intervals.ts';
import type { Call, RunFacts } from './run-facts.ts';

/** Fate of one key in the course of a run. */
export interface KeyTimeline {
  readonly key: string;
  /** Grants of locks that contain it and were valid when they were received, in order. */
  readonly holdings: readonly Holding[];
  /** Times in which somebody has it, or the servers still keep it for somebody. */
  readonly busy: Timeline;
  /** Times in which at least one process asks for it. */
  readonly demand: Timeline;
  /** Times in which nobody has it and somebody asks for it. */
  readonly wanted: Timeline;
  /** Times that are not held against anybody. */
  readonly excuses: Timeline;
}

/** The timelines of all keys that somebody asked for. */
export function keyTimelines(facts: RunFacts): KeyTimeline[] {
  const holdings = groupBy(
    facts.holdings.filter(({ granted, endedAt }) => endedAt > granted.at),
    ({ granted }) => granted.keys,
  );
  return Array.from(
    groupBy(facts.calls, ({ keys }) => keys),
    ([key, calls]) => timelineOf(key, calls, holdings.get(key) ?? [], facts),
  );
}

/** Number of ms of `from`..`to` that nothing excuses. */
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
    process: holding.granted.process,
    from: holding.granted.at,
    to: keptUntil(holding, facts),
  }));
  const held = groupBy(spans, ({ process }) => [process]);
  const busy = union(spans);
  const demand = demandFor(calls, facts);
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
 * A holder that let go in time gave it back to the servers at that moment. Otherwise they keep it until it expires there, which
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

/** A caller that comes back within this time did not stop asking. */
const PAUSE_MS = 50;

/**
 * When at least one process really asked for `key`, given all calls that name it: while one of them that wants this key alone
 * is ready to wait, whatever else stands in line with it, and its process runs.
 */
function demandFor(calls: readonly Call[], { processes }: RunFacts): Timeline {
  const waits = calls
    .filter(({ keys }) => keys.length === 1)
    .map(({ asked, endedAt }) => ({
      process: asked.process,
      from: asked.at,
      to: Math.min(endedAt, asked.at + asked.waitMs),
    }));
  const byProcess = groupBy(waits, ({ process }) => [process]);
  const asking = Array.from(byProcess).flatMap(([process, own]) =>
    difference(union(own), processes.get(process)!.downtime),
  );
  return union(asking, PAUSE_MS);
}
