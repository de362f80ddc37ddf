import type { RedlockErrorCode } from '../../../lib/core/errors.ts';

/** What a run promises, in ms unless said otherwise. */
export interface RunLimits {
  /** Time to live of the locks of the run. */
  readonly ttlMs: number;
  /** How long one server may take to answer before it no longer counts. */
  readonly nodeTimeoutMs: number;
  /** How much later than the end of its validity a running holder may hear of its loss. */
  readonly lossToleranceMs: number;
  /**
   * How long a key may lie free while somebody asks for it and a quorum is healthy for everybody who asks. Undefined where
   * the schedule does not promise it, such as with servers that are away for some workers and others for others.
   */
  readonly idleMs: number | undefined;
  /**
   * How long after a quorum is healthy again, and may vote, each key that is asked for is granted. A client comes back to a
   * server that was away up to 1 s after it can be reached.
   */
  readonly recoveryMs: number;
  /**
   * An acquire with wait w > 0 ends by w + this: its last try takes up to one node timeout, the rest is slack for timers.
   * With w = 0 it has three node timeouts more: a place in line and up to three ballots are one node timeout each.
   */
  readonly callOverrunMs: number;
  /** A release ends after this: one node timeout, and slack. */
  readonly releaseMs: number;
  /** A close ends after this: releases take one node timeout, connections that do not end by themselves 1 s; and slack. */
  readonly closeMs: number;
  /**
   * For how long two holders of one key may both be inside their validity. 0, except where the clocks of a majority of
   * servers jump forward: then up to an extension interval (a third of the ttl, one node timeout, and slack for timers).
   */
  readonly overlapMs: number;
  /** Who is ready to wait so long outlasts one slow answer, and is told of an outage only where there is one. */
  readonly patientMs: number;
  /** Codes with which a call may be refused. Undefined: every code of the package. */
  readonly expectedRefusals: ReadonlySet<string> | undefined;
}

/** Codes that an acquire has for what it meets, and not for mistakes of its caller. */
export const REFUSALS_OF_ACQUIRE: ReadonlySet<string> = new Set<RedlockErrorCode>([
  'LOCK_BUSY',
  'QUORUM_UNAVAILABLE',
  'REDLOCK_CLOSED',
]);

/** More than what a process can be late without writing down that it stalled, several times in a row. */
const SLACK_MS = 250;
/** ioredis ends a connection sooner; this is when the client stops waiting for that. */
const DISCONNECT_LIMIT_MS = 1_000;

/** The limits of a run with these changes; those that follow from ttl and node timeout follow the changed ones. */
export function runLimits(changes: Partial<RunLimits> = {}): RunLimits {
  const ttlMs = changes.ttlMs ?? 1_000;
  const nodeTimeoutMs = changes.nodeTimeoutMs ?? ttlMs / 10;
  return {
    ttlMs,
    nodeTimeoutMs,
    lossToleranceMs: 100,
    idleMs: 500,
    recoveryMs: 1_000,
    callOverrunMs: nodeTimeoutMs + SLACK_MS,
    releaseMs: nodeTimeoutMs + SLACK_MS,
    closeMs: nodeTimeoutMs + DISCONNECT_LIMIT_MS + SLACK_MS,
    overlapMs: 0,
    patientMs: 1_000,
    expectedRefusals: REFUSALS_OF_ACQUIRE,
    ...changes,
  };
}
