import type { Violation as HistoryViolation } from '../../../test/history/check-history.ts';
import type { ProblemEvent } from '../campaign-event.ts';

/** The promises of a run, in ms unless said otherwise. */
export interface RunLimits {
  /** The number of servers. */
  readonly nodes: number;
  readonly ttlMs: number;
  readonly nodeTimeoutMs: number;
  /**
   * Longest time for which a key may lie free while somebody asks for it and a quorum is healthy for everybody who asks.
   * Undefined where the schedule does not promise it, such as with servers that are away for some workers and others for
   * others.
   */
  readonly idleMs: number | undefined;
  /**
   * Longest time for which two holders of one key may both be inside their validity. 0, except where the clocks of servers
   * jump forward, and the votes of the run show it: then up to an extension interval.
   */
  readonly overlapMs: number;
}

export const RUN_LIMITS: RunLimits = {
  nodes: 5,
  ttlMs: 1_000,
  nodeTimeoutMs: 100,
  idleMs: 500,
  overlapMs: 0,
};

/** The time after the end of its validity within which a running holder must be notified of its loss. */
export const LOSS_TOLERANCE_MS = 100;
/**
 * Time within which each key that is asked for is granted after a quorum is healthy again, and may vote. A client comes
 * back to a server that was away up to 1 s after it can be reached.
 */
export const RECOVERY_MS = 1_000;
/** The slack of more than what a process can be late without writing down that it stalled, several times in a row. */
export const SLACK_MS = 250;

/** A promise that the history of a run shows broken. */
export interface CampaignViolation {
  readonly rule:
    | HistoryViolation['rule']
    | ProblemEvent['kind']
    /** The fenced view took an access of a token below one that it had taken before. */
    | 'stale-write-accepted'
    /** A number on the fenced view does not follow from the one before. */
    | 'lost-update'
    /** The fenced view refused a holder inside its validity. */
    | 'legitimate-holder-refused'
    /** An access that belongs to no grant: the history is not whole, so nothing is proved. */
    | 'access-without-grant'
    /** A call ended with a code that it must not end with. */
    | 'unexpected-refusal'
    /** A call ended with that of an outage, and there was none. */
    | 'false-outage'
    /** The lock service reported changes of a node that do not follow from each other, or not what the node did. */
    | 'wrong-node-report'
    | 'acquire-over-budget'
    | 'release-over-budget'
    | 'close-over-budget'
    | 'call-never-ended'
    /** A free key was asked for, and nobody got it. */
    | 'idle-too-long'
    /** The same, after an outage. */
    | 'slow-recovery'
    /** A lock was granted although too few servers remember what was granted before. */
    | 'granted-during-guard'
    /** A run in which so little happened that it proves nothing. */
    | 'nothing-happened';
  readonly key?: string;
  /** When it showed; ms on the clock of the history. */
  readonly at?: number;
  readonly message: string;
}

/** The numbers of one run. Times are ms, 0 where nothing of the kind happened. */
export interface RunMeasures {
  readonly grants: number;
  readonly extensions: number;
  readonly losses: number;
  /** The number of calls that ended with each code. */
  readonly refusals: Readonly<Record<string, number>>;
  /** The callers that were refused for an outage after the first ttl, in which no new server may vote. */
  readonly outages: number;
  /** The writes that the unfenced view took after an access of a newer token. */
  readonly unfencedStaleWrites: number;
  /** The accesses that the fenced view refused. */
  readonly fencedRefusals: number;
  /** Longest time for which two holders of one key were both inside their validity. */
  readonly longestOverlapMs: number;
  /** Longest time for which a free key was asked for while a quorum was healthy, less what is excused. */
  readonly longestIdleMs: number;
  /** The share of all such time, from 0 to 1, that is excused: so much of it was not watched. */
  readonly excusedIdleShare: number;
  /** Longest time from when a quorum could vote again to the next grant of a key that was asked for, less what is excused. */
  readonly longestRecoveryMs: number;
}

/** The contribution of one check. */
export interface Finding<Measure extends keyof RunMeasures = never> {
  readonly violations: CampaignViolation[];
  readonly measures: Pick<RunMeasures, Measure>;
}
