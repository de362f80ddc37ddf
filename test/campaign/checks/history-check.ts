import { checkHistory, type Violation } from '../../history/check-history.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import { describeGrant, ms } from '../../history/holding.ts';
import { brokenVotes } from './double-votes.ts';
import { touching, type Interval } from './intervals.ts';
import { unguardedQuorum } from './node-health.ts';
import type { RunFacts } from './run-facts.ts';
import type { Finding } from './run-verdict.ts';

const OVERLAP = 'overlapping-validity';

/** Everything that a history of locks promises, see test/history. */
export function checkLockHistory(facts: RunFacts): Finding<'longestOverlapMs'> {
  const { overlapMs, overlaps, lossToleranceMs } = facts.limits;
  const found = checkHistory(withAllStalls(facts), { lossToleranceMs });
  const beside = overlapsOf(found);
  const mayOverlap = overlapMs > 0 && beside.size <= overlaps;
  const violations = found.flatMap((violation) => {
    const {
      rule,
      key,
      at,
      message,
      overlapMs: forMs = 0,
      earlierHolder = '',
      laterHolder = '',
    } = violation;
    const because = (reason = ''): Finding['violations'] => [
      { rule, key, at, message: `${message}${reason && `; ${reason}`}` },
    ];
    if (!mayOverlap || rule !== OVERLAP) return because();
    const { from, to } = beside.get(earlierHolder)!;
    if (to - from > overlapMs) return because();
    const reason = brokenVotes(facts, earlierHolder, laterHolder, at + forMs);
    return reason === undefined ? [] : because(reason);
  });
  return {
    violations,
    measures: {
      longestOverlapMs: found.reduce(
        (longest, { overlapMs: overlappedMs = 0 }) => Math.max(longest, overlappedMs),
        0,
      ),
    },
  };
}

/** Time in which each holder believed in its lock beside others: from the first of them to the last. */
function overlapsOf(found: readonly Violation[]): ReadonlyMap<string, Interval> {
  const spans = new Map<string, Interval>();
  for (const { rule, at, overlapMs = 0, earlierHolder = '' } of found) {
    if (rule !== OVERLAP) continue;
    const { from, to } = spans.get(earlierHolder) ?? { from: at, to: at };
    spans.set(earlierHolder, { from: Math.min(from, at), to: Math.max(to, at + overlapMs) });
  }
  return spans;
}

/** A process that was stopped may be killed before it has written down that it did not run. */
function withAllStalls({ lockHistory, processes }: RunFacts): LockHistoryEvent[] {
  const others = lockHistory.filter(({ type }) => type !== 'stalled');
  for (const [process, { downtime, ranUntil }] of processes) {
    for (const { from, to } of downtime) {
      const until = Math.min(to, ranUntil);
      if (from < until) others.push({ type: 'stalled', process, from, to: until });
    }
  }
  return others;
}

/**
 * Checks that nobody is granted while so many servers have forgotten everything that fewer than a quorum may vote: what was
 * forgotten may still be held. Grants whose attempt began before that may rest on votes of servers that then forgot.
 */
export function checkGuards(facts: RunFacts): Finding {
  const quorum = unguardedQuorum(facts);
  return {
    violations: facts.holdings
      .filter(({ granted }) => touching(quorum, granted.startedAt, granted.at).length === 0)
      .map(({ granted }) => ({
        rule: 'granted-during-guard' as const,
        key: granted.keys.join(),
        at: granted.at,
        message: `'${granted.keys.join()}': from ${ms(granted.startedAt)} to ${ms(granted.at)} so many servers had forgotten everything that no quorum might vote, but there was a grant: ${describeGrant(granted)}`,
      })),
    measures: {},
  };
}
