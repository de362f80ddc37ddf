import { describeGrant, ms } from '../../history/holding.ts';
import { intersection, intervalAt, type Interval } from './intervals.ts';
import { unexcusedMs, type KeyTimeline } from './key-timeline.ts';
import type { Recovery } from './phases.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

type Measure = 'longestIdleGapMs' | 'excusedIdleShare' | 'longestRecoveryMs';

/**
 * A key that is free and asked for is granted soon, while a quorum is healthy for everybody. The time begins when it became
 * free, when somebody began to ask, or when all had come back after an outage, whichever is latest; what is excused is
 * subtracted. A gap that ends without a grant counts as well.
 *
 * After an outage every key that is asked for all the time is granted soon after servers may vote again, or, if it is still
 * held by then, after that.
 */
export function checkProgress(
  { limits, phases }: RunFacts,
  timelines: readonly KeyTimeline[],
): Finding<Measure> {
  const { idleMs, recoveryMs } = limits;
  const violations: CampaignViolation[] = [];
  const measures = { longestIdleGapMs: 0, excusedIdleShare: 0, longestRecoveryMs: 0 };
  let wantedMs = 0;
  let watchedMs = 0;
  for (const timeline of timelines) {
    const check = (
      rule: CampaignViolation['rule'],
      gap: Interval,
      why: string,
      limitMs = Infinity,
    ) => {
      const waitedMs = unexcusedMs(timeline, gap);
      if (waitedMs <= limitMs) return waitedMs;
      const message = `${describeGap(timeline, gap)}: ${ms(waitedMs)} that nothing excuses${why}, ${ms(limitMs)} are enough`;
      violations.push({ rule, key: timeline.key, at: gap.to, message });
      return waitedMs;
    };
    for (const gap of intersection(timeline.wanted, phases.settled)) {
      const idle = check('idle-too-long', gap, '', idleMs);
      wantedMs += gap.to - gap.from;
      watchedMs += idle;
      measures.longestIdleGapMs = Math.max(measures.longestIdleGapMs, idle);
    }
    for (const recovery of phases.recoveries) {
      const gap = gapAfter(recovery, timeline);
      if (!gap) continue;
      const why = ` since the quorum that was healed at ${ms(recovery.healedAt)} may vote`;
      const waited = check('slow-recovery', gap, why, recoveryMs);
      measures.longestRecoveryMs = Math.max(measures.longestRecoveryMs, waited);
    }
  }
  if (idleMs !== undefined && watchedMs === 0) {
    const message = `There was no key that was free and asked for without an excuse, so the run proves nothing about idle time`;
    violations.push({ rule: 'nothing-happened', message });
  }
  if (wantedMs > 0) measures.excusedIdleShare = 1 - watchedMs / wantedMs;
  return { violations, measures };
}

/** Span for which the key was waited for; undefined when it was had before, or nobody went on asking for it. */
function gapAfter(
  { healedAt, votesFrom, until }: Recovery,
  { holdings, busy, demand }: KeyTimeline,
): Interval | undefined {
  const first = holdings.find(({ granted }) => granted.at > healedAt);
  const grantedAt = first?.granted.at ?? Infinity;
  const from = Math.max(votesFrom, intervalAt(busy, votesFrom)?.to ?? votesFrom);
  const asking = intervalAt(demand, from);
  if (!asking || asking.from > votesFrom) return undefined;
  const to = Math.min(grantedAt, asking.to, until);
  return from < to ? { from, to } : undefined;
}

/** Describes for people what was before and after `gap`. */
function describeGap({ key, holdings }: KeyTimeline, { from, to }: Interval): string {
  const before = holdings.findLast(({ granted }) => granted.at < from);
  const after = holdings.find(({ granted }) => granted.at >= to);
  return `'${key}': free and asked for from ${ms(from)} to ${ms(to)}, after ${before ? describeGrant(before.granted) : 'nobody'}, before ${after ? describeGrant(after.granted) : 'nobody'}`;
}
