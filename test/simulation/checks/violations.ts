import type { Violation as HistoryViolation } from '../../history/check-history.ts';

/** A promise that a run broke. */
export interface Violation {
  readonly rule:
    | HistoryViolation['rule']
    /** T3: an extension succeeded although a newer grant was complete when it was asked for. */
    | 'extend-is-no-validation'
    /** A lock whose validity had ended was extended. */
    | 'revived'
    /** A running process handed out a lock that had ended already. */
    | 'dead-grant'
    /** Nodes said LOST, so many that no quorum is left, and the holder was not notified. */
    | 'loss-not-reported'
    /** A lock was lost although at every moment a quorum had it or could have it again. */
    | 'needless-loss'
    /** R2: an older ballot after a newer one. */
    | 'older-ballot'
    /** A vote was asked for after the release on the same node. */
    | 'vote-after-release'
    /** Commands collected for a node were not written when the tick ended. */
    | 'not-written'
    /** A vote was said to have written nothing, and the server has it. */
    | 'written-after-all'
    /** R5: a node that may have accepted an attempt never got its release, although nothing was wrong with it. */
    | 'vote-not-released'
    /** A granted lock was released as abandoned: its fence would be forgotten. */
    | 'granted-lock-abandoned'
    /** A key had more holders inside their validity than it has permits. */
    | 'too-many-holders'
    /** T7: a key outlived every lock. */
    | 'orphan'
    /** A fenced resource refused a holder inside its validity. */
    | 'legitimate-holder-refused'
    /** An acquire took longer than its wait allows. */
    | 'over-budget'
    /** Contention was reported although nobody had the lock as far as the process could know. */
    | 'false-busy'
    /** An outage was reported although a quorum of nodes voted all the time. */
    | 'false-outage'
    /** An extension or a release was reported as failed although the nodes answered. */
    | 'false-alarm'
    /** A caller waited although its keys were free for long. */
    | 'asleep'
    /** Process had a key for two rows before another one that waited had it for one. */
    | 'passed-twice'
    /** Call was not granted in time, with healthy nodes and one process. */
    | 'starved'
    /** A call that replaces others was granted after a newer one, which was called when a quorum knew its bid already. */
    | 'older-won'
    /** A call was told that a newer one has the key, and no other was under way. */
    | 'overtaken-by-nobody'
    /** A section that joined a lock ran beside the next holder, and was not notified. */
    | 'joined-beside-holder'
    /** Work other than its own, started in the async context of a section, ran under its lock. */
    | 'joined-by-accident'
    /** An event or an abort came in the async context of another caller. */
    | 'foreign-context'
    /** Locks that are over stay in memory. */
    | 'kept-record'
    /** A node was joined again and again. */
    | 'join-storm'
    /** A node joined or left twice in a row; a lock ended twice or never. */
    | 'unpaired-event'
    /** Lock could not be had in time, with a healthy quorum. */
    | 'no-progress'
    /** An error that is none of this package. */
    | 'raw-error'
    /** Thrown where nobody can catch it. */
    | 'uncaught'
    | 'unhandled-rejection'
    /** Timers, requests or promises left after close. */
    | 'pending-after-close';
  /** True time, ms; where it is known. */
  readonly atMs?: number;
  readonly message: string;
}
