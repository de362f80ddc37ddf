/**
 * What holders of locks saw, as facts written down at the moment they were known.
 *
 * All times are milliseconds, with fraction, of one monotonic clock that every process of the machine shares
 * (`process.hrtime`), so that events of different processes can be compared. A holder is named by the holder of its grant.
 */
export type LockHistoryEvent =
  | GrantedEvent
  | ExtendedEvent
  | StepEvent
  | ReenteredEvent
  | LeftEvent
  | ReleasedEvent
  | LostEvent
  | RefusedEvent
  | StalledEvent;

/** A caller received a lock. */
export interface GrantedEvent {
  readonly type: 'granted';
  /** Which process, and which start of it: `worker-3/1`. */
  readonly process: string;
  readonly holder: string;
  readonly keys: readonly string[];
  readonly token: number;
  /** When the attempt that led to the grant began: before its first message existed. */
  readonly startedAt: number;
  /** When the caller received it. */
  readonly at: number;
  /** Up to when the holder may believe to hold it, as computed at the grant. */
  readonly validUntil: number;
  /** What the lock itself said to `isHeld` at `at`; false when the process was stopped between vote and hand-over. */
  readonly held: boolean;
}

/** The lease was extended: the holder may now believe up to `validUntil`. */
export interface ExtendedEvent {
  readonly type: 'extended';
  readonly process: string;
  readonly holder: string;
  readonly at: number;
  readonly validUntil: number;
}

/** The holder asked its lock at `at`, was told that it holds it, and did a piece of its work. */
export interface StepEvent {
  readonly type: 'step';
  readonly process: string;
  readonly holder: string;
  readonly at: number;
}

/** The holder acquired the same key once more inside its work and joined its own lock. */
export interface ReenteredEvent {
  readonly type: 'reentered';
  readonly process: string;
  readonly holder: string;
  readonly at: number;
  /** What the inner acquire gave; must be the token of the grant. */
  readonly token: number;
}

/** The inner use of a lock that was joined ended; the outer one goes on. */
export interface LeftEvent {
  readonly type: 'left';
  readonly process: string;
  readonly holder: string;
  readonly at: number;
}

/** The holder is about to release; written before the release is sent. */
export interface ReleasedEvent {
  readonly type: 'released';
  readonly process: string;
  readonly holder: string;
  readonly at: number;
}

/** The holder was told that its lock is lost. */
export interface LostEvent {
  readonly type: 'lost';
  readonly process: string;
  readonly holder: string;
  readonly at: number;
  readonly reason: string;
}

/** A caller did not get the lock. */
export interface RefusedEvent {
  readonly type: 'refused';
  readonly process: string;
  readonly keys: readonly string[];
  readonly at: number;
  /** Code of the error. */
  readonly code: string;
}

/** The process did not run between `from` and `to`: stopped, or its event loop was blocked. */
export interface StalledEvent {
  readonly type: 'stalled';
  readonly process: string;
  readonly from: number;
  readonly to: number;
}

/** Now, on the clock of the history. */
export function historyNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
