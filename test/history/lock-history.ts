/**
 * Events that holders of locks saw, as facts written down at the moment they were known.
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
  | StalledEvent;

/** A caller received a lock. `process`: which, and which start of it, as `worker-3/1`. `at`: when the caller received it. */
export interface GrantedEvent extends HolderEvent {
  readonly type: 'granted';
  readonly keys: readonly string[];
  readonly token: number;
  /** When the attempt that led to the grant began: before its first message existed. */
  readonly startedAt: number;
  /** Up to when the holder may believe to hold it, as computed at the grant. */
  readonly validUntil: number;
  /** Answer of the lock itself to `isHeld` at `at`; false when the process was stopped between vote and hand-over. */
  readonly held: boolean;
}

/** Event of the lock of a holder. */
interface HolderEvent {
  readonly process: string;
  readonly holder: string;
  readonly at: number;
}

/** The lease was extended: the holder may now believe up to `validUntil`. */
export interface ExtendedEvent extends HolderEvent {
  readonly type: 'extended';
  readonly validUntil: number;
}

/** The holder asked its lock at `at`, learned that it holds it, and did a piece of its work. */
export interface StepEvent extends HolderEvent {
  readonly type: 'step';
}

/** The holder acquired the same key once more inside its work and joined its own lock. */
export interface ReenteredEvent extends HolderEvent {
  readonly type: 'reentered';
  /** Token that the inner acquire gave; must be the token of the grant. */
  readonly token: number;
}

/** The inner use of a lock that was joined ended; the outer one goes on. */
export interface LeftEvent extends HolderEvent {
  readonly type: 'left';
}

/** The holder is about to release; written before the release is sent. */
export interface ReleasedEvent extends HolderEvent {
  readonly type: 'released';
}

/** The holder was notified that its lock is lost. */
export interface LostEvent extends HolderEvent {
  readonly type: 'lost';
  readonly reason: string;
}

/** The process did not run between `from` and `to`: stopped, or its event loop was blocked. */
export interface StalledEvent {
  readonly type: 'stalled';
  readonly process: string;
  readonly from: number;
  readonly to: number;
  /** Process was killed then; the campaign wrote this down, from the last sign of life. */
  readonly killed?: true;
}

/** Now, on the clock of the history. */
export function historyNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
