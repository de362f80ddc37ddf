import type { LockHistoryEvent } from '../history/lock-history.ts';

/**
 * What one run of the fault campaign wrote down: what holders saw of their locks, and around it what callers asked for,
 * what the resource was told, and which faults were there. One clock for all, see {@link LockHistoryEvent}.
 */
export type CampaignEvent =
  | LockHistoryEvent
  | AskedEvent
  | AnsweredEvent
  | ReleaseAnsweredEvent
  | AccessEvent
  | ProblemEvent
  | ClosedEvent
  | MarkEvent;

/** A caller is about to ask for a lock. */
export interface AskedEvent {
  readonly type: 'asked';
  readonly process: string;
  /** Names the call; unique in the run. */
  readonly call: string;
  readonly keys: readonly string[];
  readonly at: number;
  /** How long it is ready to wait; 0 = one try. */
  readonly waitMs: number;
}

/** The call ended: with a lock, or with the code of a typed error. */
export interface AnsweredEvent {
  readonly type: 'answered';
  readonly process: string;
  readonly call: string;
  readonly at: number;
  /** `granted`, or the code of the error. */
  readonly outcome: string;
  /** For people: what the error said. */
  readonly message?: string;
}

/** The release that began with the `released` event of the holder was resolved. */
export interface ReleaseAnsweredEvent {
  readonly type: 'release-answered';
  readonly process: string;
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
  /** Of a read: the number that stood there. Of a write: the number that was to be written. */
  readonly value: number;
}

/** Something that must never happen. */
export interface ProblemEvent {
  readonly type: 'problem';
  readonly process: string;
  readonly at: number;
  readonly kind:
    | 'raw-error'
    | 'unhandled-rejection'
    | 'uncaught-exception'
    | 'does-not-exit'
    | 'ended-by-itself'
    | 'leaked-key';
  readonly message: string;
}

/** A process closed its lock service: `from` the call of close, `at` its end. */
export interface ClosedEvent {
  readonly type: 'closed';
  readonly process: string;
  readonly from: number;
  readonly at: number;
}

/** What the campaign did, or had a worker do to itself, as far as a promise depends on it. */
export type MarkEvent = {
  readonly type: 'mark';
  readonly process: 'campaign';
  readonly at: number;
} & (
  | {
      /** From here on the promises about speed hold; before it processes and servers start. */
      readonly mark: 'measuring' | 'measured';
    }
  | {
      /** So many servers are out of reach, for all or for some workers, that nobody can count on a quorum. */
      readonly mark: 'quorum-lost';
    }
  | {
      /** A quorum is healthy again for everybody. `guardMs`: how long the servers that came back may not vote. */
      readonly mark: 'quorum-healed';
      readonly guardMs: number;
    }
  | {
      /** So many servers forgot everything at `at` at the latest that only others than a quorum remember: nobody may be granted for `guardMs`. */
      readonly mark: 'majority-forgot';
      readonly guardMs: number;
    }
  | {
      /** A worker process (its name as in the other events) is harmed; what it was about to do stays undone. */
      readonly mark: 'worker-stopped' | 'worker-resumed' | 'worker-killed' | 'worker-blocked';
      readonly worker: string;
    }
  | {
      /** For people who read the history. */
      readonly mark: 'note';
      readonly text: string;
    }
);
