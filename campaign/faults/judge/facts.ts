import { groupBy } from '../../../test/history/group-by.ts';
import { collectHoldings, type Holding } from '../../../test/history/holding.ts';
import type { LockHistoryEvent } from '../../../test/history/lock-history.ts';
import { timeOf } from '../campaign-event.ts';
import type { AnsweredEvent, AskedEvent, CampaignEvent, EventOf } from '../campaign-event.ts';
import { intersection, intervalAt, union, type Timeline } from './intervals.ts';
import { quorumTimesOfAll, type NodeFacts, type VotingTimes } from './node-health.ts';
import { observeProcesses, placeOf } from './processes.ts';
import { RECOVERY_MS, type RunLimits } from './verdict.ts';

/** An acquire of a run. */
export interface Call {
  readonly asked: AskedEvent;
  /** The keys as the lock knows them: each once. */
  readonly keys: readonly string[];
  readonly answered: AnsweredEvent | undefined;
  /** When it was answered, or when its process was last seen. */
  readonly endedAt: number;
}

/** The end of an outage: a quorum answers from `healedAt` on, may vote from `votesFrom`, until the next outage. */
export interface Recovery {
  readonly healedAt: number;
  readonly votesFrom: number;
  readonly until: number;
}

/** The facts of a run that several checks need. */
export interface RunFacts extends NodeFacts {
  readonly calls: readonly Call[];
  /** The holdings in order of their grants. */
  readonly holdings: readonly Holding[];
  /** When the release of each holder was resolved. */
  readonly releaseAnsweredAt: ReadonlyMap<string, number>;
  readonly measuredFrom: number;
  /** Times between measuring and measured in which a quorum is healthy and may vote. */
  readonly healthy: Timeline;
  /** It is healthy for so long that everybody has come back. */
  readonly settled: Timeline;
  readonly recoveries: readonly Recovery[];
  readonly lockHistory: readonly LockHistoryEvent[];
  /** The events of a type, in the order of the history; marks in order of time. */
  readonly of: <Type extends CampaignEvent['type']>(type: Type) => readonly EventOf<Type>[];
}

const LOCK_EVENTS: ReadonlySet<string> = new Set<LockHistoryEvent['type']>([
  'extended',
  'granted',
  'left',
  'lost',
  'reentered',
  'released',
  'stalled',
  'step',
]);

/** Sorts out the events of a run; of each process they stand in the order in which it wrote them. */
export function collectFacts(events: readonly CampaignEvent[], limits: RunLimits): RunFacts {
  const byType = groupBy(events, ({ type }) => [type]);
  byType.get('mark')?.sort((a, b) => timeOf(a) - timeOf(b));
  const of = <Type extends CampaignEvent['type']>(type: Type) =>
    (byType.get(type) ?? []) as EventOf<Type>[];
  const processes = observeProcesses(events);
  const lockHistory = events.filter((event) => LOCK_EVENTS.has(event.type)) as LockHistoryEvent[];
  const [marks, faults, cuts] = [of('mark'), of('fault'), of('cut')];
  const nodeFacts = { limits, marks, faults, cuts, processes, reports: of('node') };
  const workers = new Set(of('asked').map(({ process }) => placeOf(process)));
  const answers = new Map(of('answered').map((event) => [event.call, event]));
  return {
    ...nodeFacts,
    ...phasesOf(events, quorumTimesOfAll(nodeFacts, workers)),
    calls: of('asked').map((asked) => {
      const answered = answers.get(asked.call);
      const endedAt = answered?.at ?? processes.get(asked.process)!.lastSeenAt;
      return { asked, keys: [...new Set(asked.keys)], answered, endedAt };
    }),
    holdings: collectHoldings(lockHistory),
    releaseAnsweredAt: new Map(of('release-answered').map(({ holder, at }) => [holder, at])),
    lockHistory,
    of,
  };
}

/** Measuring lasts up to the end when no mark ends it: the run was broken off. */
function phasesOf(events: readonly CampaignEvent[], { answers, votes }: VotingTimes) {
  const markedAt = (name: string) =>
    events.find((event) => event.type === 'mark' && event.mark === name);
  const [first, last] = [markedAt('measuring'), markedAt('measured') ?? events.at(-1)];
  const measuredFrom = first ? timeOf(first) : Infinity;
  const measured = union([{ from: measuredFrom, to: last ? timeOf(last) : measuredFrom }]);
  const healthy = intersection(measured, votes);
  const recovered = healthy.filter(({ from }) => from > measuredFrom);
  return {
    measuredFrom,
    healthy,
    settled: union(
      healthy.map(({ from, to }) => ({
        from: from > measuredFrom ? from + RECOVERY_MS : from,
        to,
      })),
    ),
    recoveries: recovered.map(({ from, to }) => ({
      healedAt: intervalAt(answers, from)!.from,
      votesFrom: from,
      until: to,
    })),
  };
}
