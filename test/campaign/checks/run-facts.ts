import { groupBy } from '../../history/group-by.ts';
import { collectHoldings, type Holding } from '../../history/holding.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { AnsweredEvent, AskedEvent, CampaignEvent } from '../campaign-event.ts';
import { quorumTimesOfAll, type NodeFacts } from './node-health.ts';
import { phasesOf, type Phases } from './phases.ts';
import { observeProcesses, placeOf } from './processes.ts';
import type { RunLimits } from './run-limits.ts';

/** Events of one type. */
export type EventOf<Type extends CampaignEvent['type']> = Extract<CampaignEvent, { type: Type }>;

/** Acquire of a run. */
export interface Call {
  readonly asked: AskedEvent;
  /** Keys as the lock knows them: each once. */
  readonly keys: readonly string[];
  readonly answered: AnsweredEvent | undefined;
  /** When it was answered, or when its process was last seen. */
  readonly endedAt: number;
}

/** Facts of a run that several checks need. */
export interface RunFacts extends NodeFacts {
  readonly calls: readonly Call[];
  /** Holdings in order of their grants. */
  readonly holdings: readonly Holding[];
  readonly lockHistory: readonly LockHistoryEvent[];
  /** When the release of each holder was resolved. */
  readonly releaseAnsweredAt: ReadonlyMap<string, number>;
  readonly phases: Phases;
  /** The events of a type, in the order of the history; marks in order of time. */
  readonly of: <Type extends CampaignEvent['type']>(type: Type) => readonly EventOf<Type>[];
}

/** Sorts out the events of a run; of each process they stand in the order in which it wrote them. */
export function collectFacts(events: readonly CampaignEvent[], limits: RunLimits): RunFacts {
  const byType = groupBy(events, ({ type }) => [type]);
  byType.get('mark')?.sort((a, b) => timeOf(a) - timeOf(b));
  const of = <Type extends CampaignEvent['type']>(type: Type) =>
    (byType.get(type) ?? []) as EventOf<Type>[];
  const processes = observeProcesses(events);
  const lockHistory = events.filter(isLockEvent);
  const endsAt = events.reduce((latest, event) => Math.max(latest, timeOf(event)), -Infinity);
  const [marks, faults, cuts] = [of('mark'), of('fault'), of('cut')];
  const nodeFacts = { limits, marks, faults, cuts, processes, reports: of('node') };
  const workers = new Set(of('asked').map(({ process }) => placeOf(process)));
  const times = quorumTimesOfAll(nodeFacts, workers);
  const answers = new Map(of('answered').map((event) => [event.call, event]));
  return {
    ...nodeFacts,
    calls: of('asked').map((asked) => {
      const answered = answers.get(asked.call);
      const endedAt = answered?.at ?? processes.get(asked.process)!.lastSeenAt;
      return { asked, keys: [...new Set(asked.keys)], answered, endedAt };
    }),
    holdings: collectHoldings(lockHistory),
    lockHistory,
    releaseAnsweredAt: new Map(of('release-answered').map(({ holder, at }) => [holder, at])),
    phases: phasesOf(marks, times, limits.recoveryMs, endsAt),
    of,
  };
}

/**
 * The events of all files in one order: by time, and of each file in the order of the file. Events of the same moment stand
 * in the order of the files.
 */
export function mergeHistory(files: readonly (readonly CampaignEvent[])[]): CampaignEvent[] {
  const timed = files.flatMap((events) => {
    let latest = -Infinity;
    return events.map((event) => {
      latest = Math.max(latest, timeOf(event));
      return { event, at: latest };
    });
  });
  return timed.sort((a, b) => a.at - b.at).map(({ event }) => event);
}

/** When an event was written down. */
export function timeOf(event: CampaignEvent): number {
  return event.type === 'stalled' ? event.to : event.at;
}

const LOCK_EVENTS = {
  extended: true,
  granted: true,
  left: true,
  lost: true,
  reentered: true,
  released: true,
  stalled: true,
  step: true,
} satisfies Record<LockHistoryEvent['type'], true>;

function isLockEvent(event: CampaignEvent): event is LockHistoryEvent {
  return event.type in LOCK_EVENTS;
}
