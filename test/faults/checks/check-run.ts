import type { CampaignEvent } from '../campaign-event.ts';
import { checkAccesses } from './access-check.ts';
import { checkActivity } from './activity-check.ts';
import { checkBudgets } from './budget-check.ts';
import { checkGuards } from './guard-check.ts';
import { checkLockHistory } from './history-check.ts';
import { checkIdleTimes } from './idle-check.ts';
import { keyTimelines } from './key-timeline.ts';
import { checkProblems } from './problem-check.ts';
import { checkRecords } from './record-check.ts';
import { checkRecoveries } from './recovery-check.ts';
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
  const timelines = keyTimelines(facts);
  const history = checkLockHistory(facts);
  const records = checkRecords(facts);
  const refusals = checkRefusals(facts);
  const budgets = checkBudgets(facts);
  const idleTimes = checkIdleTimes(facts, timelines);
  const recoveries = checkRecoveries(facts, timelines);
  const activity = checkActivity(facts);
  const withMeasures = [history, records, refusals, budgets, idleTimes, recoveries, activity];
  const withoutMeasures = [checkAccesses(facts), checkProblems(facts), checkGuards(facts)];
  const violations = [...withMeasures, ...withoutMeasures].flatMap((finding) => finding.violations);
  return {
    violations: violations.sort((a, b) => (a.at ?? -Infinity) - (b.at ?? -Infinity)),
    measures: {
      ...activity.measures,
      ...refusals.measures,
      ...records.measures,
      ...history.measures,
      ...idleTimes.measures,
      ...recoveries.measures,
      ...budgets.measures,
    },
  };
}
