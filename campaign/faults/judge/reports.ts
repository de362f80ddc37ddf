import { groupBy } from '../../../test/history/group-by.ts';
import { ms } from '../../../test/history/holding.ts';
import type { FaultEvent, NodeEvent } from '../campaign-event.ts';
import type { RunFacts } from './facts.ts';
import { intervalAt } from './intervals.ts';
import { nodeTimes } from './node-health.ts';
import { placeOf, ranSince } from './processes.ts';
import type { CampaignViolation, Finding } from './verdict.ts';

type State = 'away' | 'voting' | 'failing';

/** Changes that may follow each state. */
const FOLLOWS: Readonly<Record<State, readonly NodeEvent['change'][]>> = {
  away: ['joined', 'failing'],
  voting: ['left', 'failing'],
  failing: ['joined'],
};
const LEADS_TO = { joined: 'voting', left: 'away', failing: 'failing' } as const;
/** Changes of a node are reported within this time, also under load; not counting when the process did not run. */
const REPORT_MS = 2_000;

/**
 * Checks that the reports of a process on its nodes follow from each other and have their reason in what really happened;
 * and that a node that refuses every vote is reported, once, and once more when it votes again.
 */
export function checkNodeReports(facts: RunFacts): Finding {
  const violations: CampaignViolation[] = [];
  const broken = (process: string, node: number, at: number, what: string): void => {
    const message = `server ${node} of ${process} at ${ms(at)}: ${what}`;
    violations.push({ rule: 'wrong-node-report', at, message });
  };
  const reportsOf = groupBy(facts.of('node'), ({ process, node }) => [`${process} ${node}`]);
  for (const reports of reportsOf.values()) {
    let state: State = 'away';
    for (const report of reports) {
      const { process, node, at, change, reason = '' } = report;
      if (!FOLLOWS[state].includes(change)) {
        broken(process, node, at, `reported as '${change}' when it was ${state} (${reason})`);
      } else if (!hasReason(report, facts)) {
        broken(process, node, at, `reported as '${change}' although all was well (${reason})`);
      }
      state = LEADS_TO[change];
    }
  }
  for (const fault of facts.faults.filter(({ refuses }) => refuses)) {
    for (const process of runningWith(fault, facts)) {
      for (const node of fault.nodes) {
        const reports = reportsOf.get(`${process} ${node}`) ?? [];
        const wasGranted = facts.calls.some(
          ({ asked, answered }) =>
            asked.process === process &&
            answered?.outcome === 'granted' &&
            fault.at < answered.at &&
            answered.at <= fault.at + REPORT_MS / 2,
        );
        const what = missingReport(fault, reports, wasGranted);
        if (what !== undefined) broken(process, node, fault.at, `${fault.what}: ${what}`);
      }
    }
  }
  return { violations, measures: {} };
}

/** A node leaves only when its connection was cut, or its server started again or forgot its scripts; a node fails only when it does not vote in time. */
function hasReason({ change, process, node, at }: NodeEvent, facts: RunFacts): boolean {
  const worker = placeOf(process);
  if (change === 'joined') return true;
  const reportableFrom = ranSince(facts.processes.get(process)!, at, REPORT_MS);
  if (change === 'failing') {
    const { votes } = nodeTimes(facts, worker, node, 'for clients');
    return (intervalAt(votes, at)?.from ?? at) > reportableFrom;
  }
  const isNear = (from: number, to: number): boolean => from <= at && reportableFrom <= to;
  return (
    facts.cuts.some(
      (cut) => cut.worker === worker && cut.node === node && isNear(cut.from, cut.at),
    ) ||
    facts.faults.some(
      (fault) =>
        fault.nodes.includes(node) &&
        (fault.isOffline === true || fault.rejoins === true || fault.guard !== undefined) &&
        isNear(fault.from, fault.at),
    )
  );
}

/** The processes that asked for locks before, during and after. */
function runningWith({ from, at }: FaultEvent, { calls, processes }: RunFacts): string[] {
  const begun = calls.filter(({ asked }) => asked.at < from).map(({ asked }) => asked.process);
  return [...new Set(begun)].filter((process) => {
    const { downtime, lastSeenAt } = processes.get(process)!;
    return lastSeenAt > at + REPORT_MS && !downtime.some(({ to }) => to === Infinity);
  });
}

/** A node that refused every vote is reported when it accepts one: for that, its process has to get a lock meanwhile. */
function missingReport(
  fault: FaultEvent,
  reports: readonly NodeEvent[],
  wasGranted: boolean,
): string | undefined {
  // A node that was failing before, by stalls of the machine, is not reported again.
  if (reports.findLast(({ at }) => at < fault.from)?.change === 'failing') return undefined;
  const during = reports.filter(({ at }) => fault.from <= at && at <= fault.at);
  const failing = during.filter(({ change }) => change === 'failing').length;
  if (failing > 1) return `reported as failing ${failing} times`;
  if (failing === 0 && fault.at - fault.from > REPORT_MS) return 'never reported as failing';
  if (failing === 0) return undefined;
  const after = reports.filter(({ at }) => fault.from <= at && at <= fault.at + REPORT_MS);
  const failed = after.findIndex(({ change }) => change === 'failing');
  // Reports that follow may be of the next fault.
  const isReported = after.slice(failed).some(({ change }) => change === 'joined');
  return isReported || !wasGranted ? undefined : 'not reported when it voted again';
}
