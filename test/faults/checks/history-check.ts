import { checkHistory } from '../../history/check-history.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import { lateBy } from './processes.ts';
import type { RunFacts } from './run-facts.ts';
import type { Finding } from './run-verdict.ts';

/** What can't hold where two holders may overlap: these models know of one at a time. */
const ONE_AT_A_TIME: ReadonlySet<string> = new Set(['fenced-mutex', 'reentrant-fenced-mutex']);

/** Everything that a history of locks promises, see test/history. */
export function checkLockHistory(facts: RunFacts): Finding<'longestOverlapMs' | 'latestLossMs'> {
  const { overlapMs, lossToleranceMs } = facts.limits;
  const found = checkHistory(withAllStalls(facts), { lossToleranceMs });
  return {
    violations: found
      .filter(
        ({ rule, overlapMs: overlappedMs }) =>
          overlapMs === 0 ||
          !(ONE_AT_A_TIME.has(rule) || (overlappedMs !== undefined && overlappedMs <= overlapMs)),
      )
      .map(({ rule, key, at, message }) => ({ rule, key, at, message })),
    measures: {
      longestOverlapMs: found.reduce(
        (longest, { overlapMs: overlappedMs = 0 }) => Math.max(longest, overlappedMs),
        0,
      ),
      latestLossMs: latestLossMs(facts),
    },
  };
}

/** A process that was stopped may be killed before it has written down that it did not run. */
function withAllStalls({ lockHistory, processes }: RunFacts): LockHistoryEvent[] {
  const others = lockHistory.filter(({ type }) => type !== 'stalled');
  for (const [process, { downtime }] of processes) {
    for (const { from, to } of downtime) {
      if (to < Infinity) others.push({ type: 'stalled', process, from, to });
    }
  }
  return others;
}

function latestLossMs({ holdings, processes, limits }: RunFacts): number {
  return holdings.reduce((latest, { granted, lost, validUntil }) => {
    if (!lost) return latest;
    const process = processes.get(granted.process)!;
    return Math.max(latest, lateBy(process, validUntil, lost.at, limits.lossToleranceMs));
  }, 0);
}
