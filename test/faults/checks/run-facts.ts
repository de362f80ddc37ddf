import { collectHoldings, type Holding } from '../../history/holding.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { collectCalls, type Call } from './calls.ts';
import { phasesOf, type Phases } from './phases.ts';
import { observeProcesses, type ObservedProcess } from './processes.ts';
import type { RunLimits } from './run-limits.ts';

/** Events of one type. */
export type EventOf<Type extends CampaignEvent['type']> = Extract<CampaignEvent, { type: Type }>;

/** What several checks need to know of a run. */
export interface RunFacts {
  readonly limits: RunLimits;
  readonly calls: readonly Call[];
  /** In order of their grants. */
  readonly holdings: readonly Holding[];
  readonly lockHistory: readonly LockHistoryEvent[];
  /** When the release of each holder was resolved. */
  readonly releaseAnsweredAt: ReadonlyMap<string, number>;
  readonly phases: Phases;
  readonly processes: ReadonlyMap<string, ObservedProcess>;
  /** The events of a type, in the order of the history; marks in order of time. */
  readonly of: <Type extends CampaignEvent['type']>(type: Type) => readonly EventOf<Type>[];
}

/** Sorts out the events of a run; of each process they stand in the order in which it wrote them. */
export function collectFacts(events: readonly CampaignEvent[], limits: RunLimits): RunFacts {
  const byType = new Map<string, CampaignEvent[]>();
  for (const event of events) {
    const same = byType.get(event.type);
    if (same) same.push(event);
    else byType.set(event.type, [event]);
  }
  byType.get('mark')?.sort((a, b) => timeOf(a) - timeOf(b));
  const of = <Type extends CampaignEvent['type']>(type: Type) =>
    (byType.get(type) ?? []) as EventOf<Type>[];
  const processes = observeProcesses(events);
  const lockHistory = events.filter(isLockEvent);
  const endsAt = events.reduce((latest, event) => Math.max(latest, timeOf(event)), -Infinity);
  return {
    limits,
    calls: collectCalls(of('asked'), of('answered'), processes),
    holdings: collectHoldings(lockHistory),
    lockHistory,
    releaseAnsweredAt: new Map(of('release-answered').map(({ holder, at }) => [holder, at])),
    phases: phasesOf(of('mark'), limits.recoveryMs, endsAt),
    processes,
    of,
  };
}

/** When an event was written down. */
export function timeOf(event: CampaignEvent): number {
  return event.type === 'stalled' ? event.to : event.at;
}

const OTHER_EVENTS = {
  access: true,
  answered: true,
  asked: true,
  closed: true,
  mark: true,
  problem: true,
  'release-answered': true,
} satisfies Record<Exclude<CampaignEvent, LockHistoryEvent>['type'], true>;

function isLockEvent(event: CampaignEvent): event is LockHistoryEvent {
  return !(event.type in OTHER_EVENTS);
}
