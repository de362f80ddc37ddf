import type { CampaignEvent } from '../campaign-event.ts';
import { checkAccesses } from './access-check.ts';
import { checkActivity } from './activity-check.ts';
import { checkBudgets } from './budget-check.ts';
import { checkGuards, checkLockHistory } from './history-check.ts';
import { keyTimelines } from './key-timeline.ts';
import { checkNodeReports } from './node-report-check.ts';
import { checkRecords } from './record-check.ts';
import { checkProgress } from './progress-check.ts';
import { checkRefusals } from './refusal-check.ts';
import { collectFacts } from './run-facts.ts';
import type { RunLimits } from './run-limits.ts';
import type { RunVerdict } from './run-verdict.ts';

/**
 * Everything that a run broke, and its measures.
 *
 * The events of each process stand in the order in which it wrote them down; the processes may be in any order.
 */
export function checkRun(events: readonly CampaignEvent[], limits: RunLimits): RunVerdict {
  const facts = collectFacts(events, limits);
  const history = checkLockHistory(facts);
  const records = checkRecords(facts);
  const refusals = checkRefusals(facts);
  const progress = checkProgress(facts, keyTimelines(facts));
  const activity = checkActivity(facts);
  const withMeasures = [history, records, refusals, progress, activity];
  const withoutMeasures = [checkAccesses, checkBudgets, checkGuards, checkNodeReports].map(
    (check) => check(facts),
  );
  const broken = [...withMeasures, ...withoutMeasures].flatMap(({ violations }) => violations);
  // Problems that processes and the campaign wrote down because they must never happen.
  const problems = facts.of('problem').map(({ kind, process, at, message }) => ({
    rule: kind,
    process,
    at,
    message: `${process}: ${message}`,
  }));
  return {
    violations: [...broken, ...problems].sort((a, b) => (a.at ?? -Infinity) - (b.at ?? -Infinity)),
    measures: {
      ...activity.measures,
      ...refusals.measures,
      ...records.measures,
      ...history.measures,
      ...progress.measures,
    },
  };
}
