import type { LockHistoryEvent } from '../../test/history/lock-history.ts';
import type { CutConnection } from '../../test/support/link.ts';
import type { Access } from './world/resource-client.ts';

/**
 * Events that one run of the fault campaign wrote down: what holders saw of their locks, and around it what callers asked for,
 * what the resource received, what became of servers and connections, and which faults were there. One clock for all, see
 * {@link LockHistoryEvent}.
 */
export type CampaignEvent =
  | LockHistoryEvent
  | AskedEvent
  | AnsweredEvent
  | ReleaseAnsweredEvent
  | AccessEvent
  | ProblemEvent
  | ClosedEvent
  | NodeEvent
  | VotedEvent
  | TakenEvent
  | FaultEvent
  | CutEvent
  | MarkEvent;

export type EventOf<Type extends CampaignEvent['type']> = Extract<CampaignEvent, { type: Type }>;

interface Written {
  readonly process: string;
  readonly at: number;
}

/** A caller is about to ask for a lock. */
export interface AskedEvent extends Written {
  readonly type: 'asked';
  /** Names the call; unique in the run. */
  readonly call: string;
  readonly keys: readonly string[];
  /** Longest time for which it is ready to wait; 0 = one try. */
  readonly waitMs: number;
}

/** The call ended: with a lock, or with the code of a typed error. */
export interface AnsweredEvent extends Written {
  readonly type: 'answered';
  readonly call: string;
  /** `granted`, or the code of the error. */
  readonly outcome: string;
  readonly message?: string;
}

/** The release that began with the `released` event of the holder was resolved. */
export interface ReleaseAnsweredEvent extends Written {
  readonly type: 'release-answered';
  readonly holder: string;
}

/**
 * The resource was read or written by a holder. A holder reads the number of a record after its grant, and later writes back
 * that number plus one.
 */
export interface AccessEvent extends Written, Access {
  readonly type: 'access';
  readonly holder: string;
  readonly token: number;
  /** Always true on the unfenced view. */
  readonly accepted: boolean;
}

/** An occurrence that must never happen. */
export interface ProblemEvent extends Written {
  readonly type: 'problem';
  readonly kind:
    | 'raw-error'
    | 'unhandled-rejection'
    | 'uncaught-exception'
    | 'does-not-exit'
    | 'ended-by-itself'
    | 'leaked-key'
    /** A promise of its own that a schedule looked after. */
    | 'broken-promise';
  readonly message: string;
}

/** A process closed its lock service: `from` the call of close, `at` its end. */
export interface ClosedEvent extends Written {
  readonly type: 'closed';
  readonly from: number;
}

/** The lock service reported a change of one of its nodes. */
export interface NodeEvent extends Written {
  readonly type: 'node';
  readonly node: number;
  readonly change: 'joined' | 'left' | 'failing';
  readonly reason?: string;
}

/** A server said yes to a vote or an extension of `holder`, at some time between `askedAt` and `at`. Where votes are noted. */
export interface VotedEvent extends Written {
  readonly type: 'voted';
  readonly holder: string;
  readonly node: number;
  readonly askedAt: number;
}

/** A server said no to an extension of `holder`: another one had the lock at some time between `askedAt` and `at`. */
export interface TakenEvent extends Written {
  readonly type: 'taken';
  readonly holder: string;
  readonly node: number;
  readonly askedAt: number;
}

/** Servers, or the ways to them, did not work from `from` to `at`. */
export interface FaultEvent extends Written {
  readonly type: 'fault';
  readonly what: string;
  readonly nodes: readonly number[];
  /** The workers that had to do without them, as `worker-2`; all of them when left out. */
  readonly workers?: readonly string[];
  readonly from: number;
  /** Clients failed to connect meanwhile, so that they pause between their tries. */
  readonly isOffline?: boolean;
  /** Commands and replies sent meanwhile arrived at their end. */
  readonly delivers?: boolean;
  readonly rejoins?: boolean;
  /** The servers answered, and refused every vote. */
  readonly refuses?: boolean;
  /** The time in which certainly none of the servers may vote, where they were started again or emptied. */
  readonly guard?: { readonly from: number; readonly to: number };
}

/** The network ended a connection of a worker to a server, or forgot it. */
export interface CutEvent extends CutConnection {
  readonly type: 'cut';
  readonly process: 'network';
  /** The name of the worker, such as `worker-2`. */
  readonly worker: string;
  readonly node: number;
}

/** The mark that a run makes of itself. */
export type Mark =
  /** Workers have all started, and no server may vote before a guard time has passed. */
  | { readonly mark: 'started' }
  /** The promises about speed hold from `measuring` to `measured`. */
  | { readonly mark: 'measuring' | 'measured' }
  /** A worker process (its name as in the other events) begins to run, or is killed. */
  | { readonly mark: 'worker-started' | 'worker-killed'; readonly worker: string }
  /** The clocks of these servers moved, at some time since `from`. */
  | { readonly mark: 'clocks-moved'; readonly nodes: readonly number[]; readonly from: number }
  | { readonly mark: 'note'; readonly text: string };

export type MarkEvent = Written & { readonly type: 'mark' } & Mark;

/** When an event was written down. */
export function timeOf(event: CampaignEvent): number {
  return event.type === 'stalled' ? event.to : event.at;
}

/** The events of all files in one order: by time, and of each file in the order of the file. */
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
