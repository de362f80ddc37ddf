/** Promises of a run, in ms unless said otherwise. */
export interface RunLimits {
  /** Number of servers. */
  readonly nodes: number;
  /** Time to live of the locks of the run. */
  readonly ttlMs: number;
  /** Time that one server may take to answer before it no longer counts. */
  readonly nodeTimeoutMs: number;
  /** Time after the end of its validity within which a running holder must be notified of its loss. */
  readonly lossToleranceMs: number;
  /**
   * Longest time for which a key may lie free while somebody asks for it and a quorum is healthy for everybody who asks.
   * Undefined where the schedule does not promise it, such as with servers that are away for some workers and others for
   * others.
   */
  readonly idleMs: number | undefined;
  /**
   * Time within which each key that is asked for is granted after a quorum is healthy again, and may vote. A client comes
   * back to a server that was away up to 1 s after it can be reached.
   */
  readonly recoveryMs: number;
  /** An acquire ends this much after its wait, or, if that is longer, one node timeout. */
  readonly callOverrunMs: number;
  /** A release ends after this: one node timeout, and slack. */
  readonly releaseMs: number;
  /** A close ends after this: releases take one node timeout, connections that do not end by themselves 1 s; and slack. */
  readonly closeMs: number;
  /**
   * Longest time for which two holders of one key may both be inside their validity. 0, except where the clocks of servers
   * jump forward, and the votes of the run show it: then up to an extension interval (a third of the ttl, one node timeout,
   * and slack for timers).
   */
  readonly overlapMs: number;
  /** Number of holders to whom that may happen in the run. Several others may have the key, one after the other, meanwhile. */
  readonly overlaps: number;
}

/** More than what a process can be late without writing down that it stalled, several times in a row. */
const SLACK_MS = 250;
/** ioredis ends a connection sooner; this is when the client stops waiting for that. */
const DISCONNECT_LIMIT_MS = 1_000;

/** The limits of a run with these changes; those that follow from ttl and node timeout follow the changed ones. */
export function runLimits(changes: Partial<RunLimits> = {}): RunLimits {
  const ttlMs = changes.ttlMs ?? 1_000;
  const nodeTimeoutMs = changes.nodeTimeoutMs ?? ttlMs / 10;
  return {
    nodes: 5,
    ttlMs,
    nodeTimeoutMs,
    lossToleranceMs: 100,
    idleMs: 500,
    recoveryMs: 1_000,
    callOverrunMs: SLACK_MS,
    releaseMs: nodeTimeoutMs + SLACK_MS,
    closeMs: nodeTimeoutMs + DISCONNECT_LIMIT_MS + SLACK_MS,
    overlapMs: 0,
    overlaps: Infinity,
    ...changes,
  };
}
