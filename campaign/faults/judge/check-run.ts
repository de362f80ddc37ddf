import type { CampaignEvent } from '../campaign-event.ts';
import { checkBudgets, checkRefusals } from './calls.ts';
import { collectFacts, type RunFacts } from './facts.ts';
import { intervalAt } from './intervals.ts';
import { checkLocks } from './locks.ts';
import { checkProgress } from './progress.ts';
import { checkRecords } from './records.ts';
import { checkNodeReports } from './reports.ts';
import type { CampaignViolation, Finding, RunLimits, RunMeasures } from './verdict.ts';

/** The promises that a run broke, if any, in order of time, and how well it went. */
export interface RunVerdict {
  readonly violations: CampaignViolation[];
  readonly measures: RunMeasures;
}

/**
 * Everything that a run broke, and its measures.
 *
 * The events of each process stand in the order in which it wrote them down; the processes may be in any order.
 */
export function checkRun(events: readonly CampaignEvent[], limits: RunLimits): RunVerdict {
  const facts = collectFacts(events, limits);
  const [locks, records, refusals, progress, activity] = [
    checkLocks(facts),
    checkRecords(facts),
    checkRefusals(facts),
    checkProgress(facts),
    checkActivity(facts),
  ];
  // The problems that processes and the campaign wrote down because they must never happen.
  const problems = facts.of('problem').map(({ kind: rule, process, at, message }) => ({
    rule,
    at,
    message: `${process}: ${message}`,
  }));
  const violations = [
    locks,
    records,
    refusals,
    progress,
    activity,
    checkBudgets(facts),
    checkNodeReports(facts),
  ]
    .flatMap((finding) => finding.violations)
    .concat(problems);
  return {
    violations: violations.sort((a, b) => (a.at ?? -Infinity) - (b.at ?? -Infinity)),
    measures: {
      ...activity.measures,
      ...refusals.measures,
      ...records.measures,
      ...locks.measures,
      ...progress.measures,
    },
  };
}

/** A run in which nothing happened keeps every promise: so something must have happened. */
function checkActivity({
  holdings,
  of,
  healthy,
}: RunFacts): Finding<'grants' | 'extensions' | 'losses'> {
  const happened = {
    'grant while it was measured and a quorum was healthy': holdings.some(({ granted }) =>
      intervalAt(healthy, granted.at),
    ),
    'write that the fenced view accepted': of('access').some(
      ({ view, operation, accepted }) => view === 'fenced' && operation === 'write' && accepted,
    ),
  };
  return {
    violations: Object.entries(happened).flatMap(([what, isThere]): CampaignViolation[] =>
      isThere
        ? []
        : [{ rule: 'nothing-happened', message: `no ${what}, so the run proves nothing` }],
    ),
    measures: {
      grants: holdings.length,
      extensions: of('extended').length,
      losses: of('lost').length,
    },
  };
}
