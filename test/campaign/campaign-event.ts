import type { LockHistoryEvent } from '../history/lock-history.ts';
import type { ConnectionKind } from './network/network-command.ts';

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
  | FaultEvent
  | CutEvent
  | MarkEvent;

/** Process that wrote it down, and time. */
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
  /** Text of the error, for people. */
  readonly message?: string;
}

/** The release that began with the `released` event of the holder was resolved. */
export interface ReleaseAnsweredEvent extends Written {
  readonly type: 'release-answered';
  readonly holder: string;
  readonly at: number;
}

/**
 * The resource was read or written by a holder. Written down by the resource, in the order in which it did it.
 *
 * There are two views of the same records: one that checks tokens, one that takes everything. A holder reads the number
 * of a record after its grant (on the fenced view the read claims the record for its token), and later writes back that
 * number plus one.
 */
export interface AccessEvent {
  readonly type: 'access';
  readonly process: 'resource';
  readonly view: 'fenced' | 'unfenced';
  readonly operation: 'read' | 'write';
  readonly key: string;
  readonly holder: string;
  readonly token: number;
  readonly at: number;
  /** Always true on the unfenced view. */
  readonly accepted: boolean;
  /** Number that a read found there, or that a write was to write. */
  readonly value: number;
}

/** Occurrence that must never happen. */
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
  readonly at: number;
}

/** The lock service reported a change of one of its nodes. */
export interface NodeEvent extends Written {
  readonly type: 'node';
  readonly node: number;
  readonly change: 'joined' | 'left' | 'failing';
  /** Cause, for people. */
  readonly reason?: string;
}

/** A server said yes to a vote or an extension of `holder`, at some time between `askedAt` and `at`. Where votes are noted. */
export interface VotedEvent extends Written {
  readonly type: 'voted';
  readonly holder: string;
  readonly node: number;
  readonly askedAt: number;
}

/** Servers, or the ways to them, did not work for a while. Written down at the end of it. */
export interface FaultEvent {
  readonly type: 'fault';
  readonly process: 'campaign';
  /** Description for people. */
  readonly what: string;
  readonly nodes: readonly number[];
  /** The workers that had to do without them, as `worker-2`; all of them when left out. */
  readonly workers?: readonly string[];
  readonly from: number;
  /** Time from which it works for clients that are connected; and votes, unless it forgot. */
  readonly at: number;
  /** Clients failed to connect meanwhile, so that they pause between their tries. */
  readonly isOffline?: boolean;
  /** Clients had to join again. */
  readonly rejoins?: boolean;
  /** Commands and replies sent meanwhile arrived at their end. */
  readonly delivers?: boolean;
  /** The servers answered, and refused every vote. */
  readonly refuses?: boolean;
  /** Time in which certainly none of the servers may vote, where they were started again or emptied. */
  readonly guard?: { readonly from: number; readonly to: number };
}

/** Harm that a link did to a connection; it ended `at`, or was replaced then by a client that noticed by itself. */
export interface CutConnection {
  readonly kind: ConnectionKind;
  readonly from: number;
  readonly at: number;
}

/** The network ended a connection of a worker to a server, or forgot it. */
export interface CutEvent extends CutConnection {
  readonly type: 'cut';
  readonly process: 'network';
  /** Name of the worker, such as `worker-2`. */
  readonly worker: string;
  readonly node: number;
}

/** Act of the campaign, or of a worker on itself at its request, as far as a promise depends on it. */
export type MarkEvent = {
  readonly type: 'mark';
  readonly process: 'campaign';
  readonly at: number;
} & (
  | {
      /** Workers have all started, and no server may vote before a guard time has passed. */
      readonly mark: 'started';
    }
  | {
      /** Promises about speed hold from here on; before it processes and servers start. */
      readonly mark: 'measuring' | 'measured';
    }
  | {
      /** A worker process (its name as in the other events) is harmed; what it was about to do stays undone. */
      readonly mark: 'worker-stopped' | 'worker-resumed' | 'worker-killed' | 'worker-blocked';
      readonly worker: string;
    }
  | {
      /** A worker process runs from here on; what it needs to get that far says nothing about locks. */
      readonly mark: 'worker-started';
      readonly worker: string;
    }
  | {
      /** The clocks of these servers moved, at some time between `from` and `at`. */
      readonly mark: 'clocks-moved';
      readonly nodes: readonly number[];
      readonly from: number;
    }
  | {
      /** Note for people who read the history. */
      readonly mark: 'note';
      readonly text: string;
    }
);

/** A mark without what every mark has. */
export type Mark = MarkEvent extends infer Each
  ? Each extends MarkEvent
    ? Omit<Each, 'type' | 'process' | 'at'>
    : never
  : never;
