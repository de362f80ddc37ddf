import { driftMs } from '../../../lib/core/voting/vote-round.ts';
import { REDLOCK_DEFAULTS } from '../../../lib/core/options/options.ts';
import { groupBy } from '../../../test/history/group-by.ts';
import { describeGrant, ms, type Holding } from '../../../test/history/holding.ts';
import { excusesFor } from './excuses.ts';
import type { Call, Recovery, RunFacts } from './facts.ts';
import { complement, coveredMs, difference, intersection, intervalAt, union } from './intervals.ts';
import type { Interval, Timeline } from './intervals.ts';
import { RECOVERY_MS, type CampaignViolation, type Finding } from './verdict.ts';

/** A caller that comes back within this time did not stop asking. */
const PAUSE_MS = 50;

/** The fate of one key in the course of a run. */
interface KeyTimeline {
  readonly key: string;
  /** The grants of locks that contain it and were valid when they were received, in order. */
  readonly holdings: readonly Holding[];
  /** The times in which somebody has it, or the servers still keep it for somebody. */
  readonly busy: Timeline;
  /** The times in which at least one process asks for it. */
  readonly demand: Timeline;
  /** The times that are not held against anybody. */
  readonly excuses: Timeline;
}

/**
 * A key that is free and asked for is granted soon, while a quorum is healthy for everybody. The time begins when it became
 * free, when somebody began to ask, or when all had come back after an outage, whichever is latest; what is excused is
 * subtracted. A gap that ends without a grant counts as well.
 *
 * After an outage every key that is asked for all the time is granted soon after servers may vote again, or, if it is still
 * held by then, after that.
 */
export function checkProgress(
  facts: RunFacts,
): Finding<'longestIdleMs' | 'excusedIdleShare' | 'longestRecoveryMs'> {
  const { idleMs = Infinity } = facts.limits;
  const violations: CampaignViolation[] = [];
  let [wantedMs, watchedMs, longestIdleMs, longestRecoveryMs] = [0, 0, 0, 0];
  for (const timeline of keyTimelines(facts)) {
    const waitedIn = (rule: CampaignViolation['rule'], gap: Interval, limitMs: number): number => {
      const { key, excuses } = timeline;
      const waitedMs = gap.to - gap.from - coveredMs(excuses, gap.from, gap.to);
      const message = `${describeGap(timeline, gap)}: ${ms(waitedMs)} that nothing excuses, ${ms(limitMs)} are enough`;
      if (waitedMs > limitMs) violations.push({ rule, key, at: gap.to, message });
      return waitedMs;
    };
    const wanted = intersection(complement(timeline.busy), timeline.demand);
    for (const gap of intersection(wanted, facts.settled)) {
      const waitedMs = waitedIn('idle-too-long', gap, idleMs);
      wantedMs += gap.to - gap.from;
      watchedMs += waitedMs;
      longestIdleMs = Math.max(longestIdleMs, waitedMs);
    }
    for (const recovery of facts.recoveries) {
      const gap = gapAfter(recovery, timeline);
      if (!gap) continue;
      const waitedMs = waitedIn('slow-recovery', gap, RECOVERY_MS);
      longestRecoveryMs = Math.max(longestRecoveryMs, waitedMs);
    }
  }
  if (idleMs < Infinity && watchedMs === 0) {
    const message = `There was no key that was free and asked for without an excuse, so the run proves nothing about idle time`;
    violations.push({ rule: 'nothing-happened', message });
  }
  const excusedIdleShare = wantedMs > 0 ? 1 - watchedMs / wantedMs : 0;
  return { violations, measures: { longestIdleMs, excusedIdleShare, longestRecoveryMs } };
}

/** The timelines of all keys that somebody asked for. */
function keyTimelines(facts: RunFacts): KeyTimeline[] {
  const valid = facts.holdings.filter(({ granted, endedAt }) => endedAt > granted.at);
  const byKey = groupBy(valid, ({ granted }) => granted.keys);
  return Array.from(
    groupBy(facts.calls, ({ keys }) => keys),
    ([key, calls]) => {
      const holdings = byKey.get(key) ?? [];
      const spans = holdings.map((holding) => ({
        process: holding.granted.process,
        from: holding.granted.at,
        to: keptUntil(holding, facts),
      }));
      const held = groupBy(spans, ({ process }) => [process]);
      const excuses = excusesFor(calls, held, facts);
      return { key, holdings, busy: union(spans), demand: demandFor(calls, facts), excuses };
    },
  );
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

/**
 * When at least one process really asked for the key of these calls: while one of them that wants this key alone is ready to
 * wait, whatever else stands in line with it, and its process runs.
 */
function demandFor(calls: readonly Call[], { processes }: RunFacts): Timeline {
  const waits = calls
    .filter(({ keys }) => keys.length === 1)
    .map(({ asked, endedAt }) => ({
      process: asked.process,
      from: asked.at,
      to: Math.min(endedAt, asked.at + asked.waitMs),
    }));
  const asking = Array.from(groupBy(waits, ({ process }) => [process])).flatMap(([process, own]) =>
    difference(union(own), processes.get(process)!.downtime),
  );
  return union(asking, PAUSE_MS);
}

/** A span for which the key was waited for; undefined when it was had before, or nobody went on asking for it. */
function gapAfter(
  { healedAt, votesFrom, until }: Recovery,
  { holdings, busy, demand }: KeyTimeline,
): Interval | undefined {
  const first = holdings.find(({ granted }) => granted.at > healedAt);
  const from = Math.max(votesFrom, intervalAt(busy, votesFrom)?.to ?? votesFrom);
  const asking = intervalAt(demand, from);
  if (!asking || asking.from > votesFrom) return undefined;
  const to = Math.min(first?.granted.at ?? Infinity, asking.to, until);
  return from < to ? { from, to } : undefined;
}

function describeGap({ key, holdings }: KeyTimeline, { from, to }: Interval): string {
  const before = holdings.findLast(({ granted }) => granted.at < from);
  const after = holdings.find(({ granted }) => granted.at >= to);
  return `'${key}': free and asked for from ${ms(from)} to ${ms(to)}, after ${before ? describeGrant(before.granted) : 'nobody'}, before ${after ? describeGrant(after.granted) : 'nobody'}`;
}
