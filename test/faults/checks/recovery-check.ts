import { ms } from '../../history/holding.ts';
import { intervalAt } from './intervals.ts';
import { describeGap } from './idle-check.ts';
import { unexcusedMs, type KeyTimeline } from './key-timeline.ts';
import type { Recovery } from './phases.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

/**
 * After an outage every key that is asked for all the time is granted soon after servers may vote again, or, if it is
 * still held by then, after that. The same excuses as for {@link checkIdleTimes}.
 */
export function checkRecoveries(
  { limits, phases }: RunFacts,
  timelines: readonly KeyTimeline[],
): Finding<'longestRecoveryMs'> {
  const { recoveryMs } = limits;
  const violations: CampaignViolation[] = [];
  let longestRecoveryMs = 0;
  for (const recovery of phases.recoveries) {
    for (const timeline of timelines) {
      const gap = gapAfter(recovery, timeline);
      if (!gap) continue;
      const waited = unexcusedMs(timeline, gap);
      longestRecoveryMs = Math.max(longestRecoveryMs, waited);
      if (waited <= recoveryMs) continue;
      const { key } = timeline;
      const message = `${describeGap(timeline, gap)}: ${ms(waited)} that nothing excuses since the quorum that was healed at ${ms(recovery.healedAt)} may vote, ${ms(recoveryMs)} are enough`;
      violations.push({ rule: 'slow-recovery', key, at: gap.to, message });
    }
  }
  return { violations, measures: { longestRecoveryMs } };
}

/** For how long the key was waited for; undefined when it was had before, or nobody went on asking for it. */
function gapAfter(
  { healedAt, votesFrom, until }: Recovery,
  { holdings, busy, demand }: KeyTimeline,
): { readonly from: number; readonly to: number } | undefined {
  const first = holdings.find(({ granted }) => granted.at > healedAt);
  const grantedAt = first?.granted.at ?? Infinity;
  const from = Math.max(votesFrom, intervalAt(busy, votesFrom)?.to ?? votesFrom);
  const asking = intervalAt(demand, from);
  if (!asking || asking.from > votesFrom) return undefined;
  const to = Math.min(grantedAt, asking.to, until);
  return from < to ? { from, to } : undefined;
}
