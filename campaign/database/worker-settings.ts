import type { StartSettings } from '../faults/worker/worker-process.ts';

/** The use of locks by the callers of a process. */
export interface Load {
  /** Callers inside each process. */
  readonly callers: number;
  /** The time that the work under a lock takes, at least and at most. */
  readonly holdMs: readonly [number, number];
}

/** The settings that a worker process is given at its start. */
export interface WorkerSettings extends StartSettings {
  /** The index of the worker, of all its starts. */
  readonly index: number;
  /** The database behind the pooler, as this worker reaches it. */
  readonly url: string;
  readonly poolSize: number;
  /** The database itself, where this worker listens there. */
  readonly listenUrl?: string;
  /** Redis servers that give locks besides the database. */
  readonly redisUrls: readonly string[];
  readonly load: Load;
}

/** A request to a worker while it runs; answered when it has done it. */
export interface WorkerCommand {
  readonly type:
    /** The next holder stops its own process after it has asked its lock whether it may write, and before it writes. */
    | 'stop-between-check-and-write'
    /** Callers let go of what they have, and then each takes a lock of its own, under which it does nothing until `go-on`. */
    | 'hold'
    | 'go-on';
}

export const TTL_MS = 2_000;
/** The locks that callers compete for. */
export const KEYS = 8;
