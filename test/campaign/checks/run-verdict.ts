import type { Violation as HistoryViolation } from '../../history/check-history.ts';
import type { ProblemEvent } from '../campaign-event.ts';

/** Promises that a run broke, if any, and how well it went. */
export interface RunVerdict {
  /** Violations in order of time. */
  readonly violations: CampaignViolation[];
  readonly measures: RunMeasures;
}

/** A promise that the history of a run shows broken. */
export interface CampaignViolation {
  readonly rule:
    | HistoryViolation['rule']
    | ProblemEvent['kind']
    /** The fenced view took an access of a token below one that it had taken before. */
    | 'stale-write-accepted'
    /** Number on the fenced view does not follow from the one before. */
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
    /** Run in which so little happened that it proves nothing. */
    | 'nothing-happened';
  /** The keys of the lock concerned, joined by commas. */
  readonly key?: string;
  /** The process concerned, where it is not about a key. */
  readonly process?: string;
  /** When it showed; ms on the clock of the history. */
  readonly at?: number;
  /** Description for people. */
  readonly message: string;
}

/** Callers that were refused because of an outage, by what there was. */
export interface OutageCounts {
  /** A quorum answered and might vote. */
  readonly none: number;
  /** A quorum answered, and its restart guard kept it from voting. */
  readonly guard: number;
  readonly real: number;
}

/** Numbers of one run, for the table of results. Times are ms, 0 where nothing of the kind happened. */
export interface RunMeasures {
  readonly grants: number;
  readonly extensions: number;
  readonly losses: number;
  /** Number of calls that ended with each code. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly outages: OutageCounts;
  /** Writes that the unfenced view took after an access of a newer token. */
  readonly unfencedStaleWrites: number;
  /** Accesses that the fenced view refused. */
  readonly fencedRefusals: number;
  /** Longest time for which two holders of one key were both inside their validity. */
  readonly longestOverlapMs: number;
  /** Longest time for which a free key was asked for while a quorum was healthy, less what is excused. */
  readonly longestIdleGapMs: number;
  /** Share of all such time, from 0 to 1, that is excused: so much of it was not watched. */
  readonly excusedIdleShare: number;
  /** Longest time from when a quorum could vote again to the next grant of a key that was asked for, less what is excused. */
  readonly longestRecoveryMs: number;
}

/** Contribution of one check. */
export interface Finding<Measure extends keyof RunMeasures = never> {
  readonly violations: CampaignViolation[];
  readonly measures: Pick<RunMeasures, Measure>;
}
