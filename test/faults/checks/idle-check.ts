import { describeGrant, ms } from '../../history/holding.ts';
import { intersection, type Interval } from './intervals.ts';
import { unexcusedMs, type KeyTimeline } from './key-timeline.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

/**
 * A key that is free and asked for is granted soon, while a quorum is healthy for everybody. The time begins when it became
 * free, when somebody began to ask, or when all had come back after an outage, whichever is latest; what is excused is
 * subtracted. A gap that ends without a grant counts as well.
 */
export function checkIdleTimes(
  { limits, phases }: RunFacts,
  timelines: readonly KeyTimeline[],
): Finding<'longestIdleGapMs' | 'excusedIdleShare'> {
  const { idleMs } = limits;
  const violations: CampaignViolation[] = [];
  let longestIdleGapMs = 0;
  let wantedMs = 0;
  let watchedMs = 0;
  for (const timeline of timelines) {
    for (const gap of intersection(timeline.wanted, phases.settled)) {
      const idle = unexcusedMs(timeline, gap);
      wantedMs += gap.to - gap.from;
      watchedMs += idle;
      longestIdleGapMs = Math.max(longestIdleGapMs, idle);
      if (idleMs === undefined || idle <= idleMs) continue;
      const { key } = timeline;
      const message = `${describeGap(timeline, gap)}: ${ms(idle)} that nothing excuses, ${ms(idleMs)} are enough`;
      violations.push({ rule: 'idle-too-long', key, at: gap.to, message });
    }
  }
  // How much of it was excused stands in the measures: on a machine that stalls all the time it is nearly everything.
  if (idleMs !== undefined && wantedMs === 0) {
    const message = `There was no key that was free and asked for, so the run proves nothing about idle time`;
    violations.push({ rule: 'nothing-happened', message });
  }
  const excusedIdleShare = wantedMs === 0 ? 0 : 1 - watchedMs / wantedMs;
  return { violations, measures: { longestIdleGapMs, excusedIdleShare } };
}

/** For people: what was before and after `gap`. */
export function describeGap({ key, holdings }: KeyTimeline, { from, to }: Interval): string {
  const before = holdings.findLast(({ granted }) => granted.at < from);
  const after = holdings.find(({ granted }) => granted.at >= to);
  return `'${key}': free and asked for from ${ms(from)} to ${ms(to)}, after ${before ? describeGrant(before.granted) : 'nobody'}, before ${after ? describeGrant(after.granted) : 'nobody'}`;
}
