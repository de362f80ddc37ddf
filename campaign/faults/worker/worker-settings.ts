import type { RedlockOptions } from '../../../lib/core/options/options.ts';

/** The use of locks by callers. */
export interface Load {
  /** Callers inside each process. */
  readonly callers: number;
  readonly keys: number;
  /** The times for which a caller is ready to wait, one of these by chance. */
  readonly waitsMs: readonly number[];
  /** The time that the work inside a lock takes, at least and at most. */
  readonly holdMs: readonly [number, number];
  /** The share of locks that are held for more than a ttl. */
  readonly longShare: number;
  /** The share of locks that are not extended, however long they are held. */
  readonly unextendedShare: number;
  /** The share of locks on two keys at once. */
  readonly setShare: number;
  /** The longest pause between two locks of a caller. */
  readonly pauseMs: number;
}

/** The settings that a worker process is given at its start. */
export interface WorkerSettings {
  /** The name of this start in the history. */
  readonly name: string;
  readonly historyPath: string;
  /** File where the time of its last tick stands. */
  readonly notePath: string;
  readonly seed: number;
  /** The servers as this worker reaches them. */
  readonly urls: readonly string[];
  readonly keyPrefix: string;
  readonly ttlMs: number;
  readonly load: Load;
  readonly resourcePort: number;
  /** The error of the wall clock of this process from its start. */
  readonly wallSkewMs: number;
  /** Whether the history says which servers said yes to whom. */
  readonly notesVotes: boolean;
  /** Further options of the lock service. */
  readonly options: RedlockOptions;
}

/** A request to a worker while it runs; answered when it has done it. */
export type WorkerCommand =
  /** The next holder stops its own process after it has asked its lock whether it may write, and before it writes. */
  | { readonly type: 'stop-between-check-and-write' }
  /** The same, but its event loop is blocked for so long. */
  | { readonly type: 'block-between-check-and-write'; readonly durationMs: number }
  /** Blocks its event loop for so long when the votes for the next lock have left, and before answers are read. */
  | { readonly type: 'block-during-votes'; readonly durationMs: number }
  /** Makes `Date.now()` wrong by this much from now on. */
  | { readonly type: 'set-wall-clock'; readonly skewMs: number }
  /** Callers let go of what they have, and ask for nothing more until they may go on. */
  | { readonly type: 'rest' | 'go-on' }
  /** Lets one more caller use a lock of its own once. */
  | { readonly type: 'use'; readonly key: string; readonly waitMs: number }
  /** Asks for so many different keys at once, which no one else wants; answered with how many calls ended with what. */
  | { readonly type: 'burst'; readonly keys: number; readonly waitMs: number };
