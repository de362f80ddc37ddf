import type { RedlockOptions } from '../../../lib/core/options/options.ts';

/** How callers use locks. */
export interface Load {
  /** Callers inside each process. */
  readonly callers: number;
  readonly keys: number;
  /** How long a caller is ready to wait, by chance one of these. */
  readonly waitsMs: readonly number[];
  /** How long the work inside a lock takes, at least and at most. */
  readonly holdMs: readonly [number, number];
  /** Share of locks that are held for more than a ttl. */
  readonly longShare: number;
  /** Share of locks that are not extended, however long they are held. */
  readonly unextendedShare: number;
  /** Share of locks on two keys at once. */
  readonly setShare: number;
  /** The longest pause between two locks of a caller. */
  readonly pauseMs: number;
}

/** What a worker process is given at its start. */
export interface WorkerSettings {
  /** Name of this start in the history. */
  readonly name: string;
  readonly historyPath: string;
  /** Where the time of its last tick stands. */
  readonly notePath: string;
  readonly seed: number;
  /** The servers as this worker reaches them. */
  readonly urls: readonly string[];
  readonly keyPrefix: string;
  readonly ttlMs: number;
  readonly load: Load;
  readonly resourcePort: number;
  /** How wrong the wall clock of this process is from its start. */
  readonly wallSkewMs: number;
  /** Whether the history says which servers said yes to whom. */
  readonly notesVotes: boolean;
  /** Further options of the lock service. */
  readonly options: RedlockOptions;
}

/** What a worker is asked while it runs; answered when it has done it. */
export type WorkerCommand =
  /** The next holder stops its own process after it has asked its lock whether it may write, and before it writes. */
  | { readonly type: 'stop-between-check-and-write' }
  /** The same, but its event loop is blocked for so long. */
  | { readonly type: 'block-between-check-and-write'; readonly durationMs: number }
  /** Its event loop is blocked for so long when the votes for the next lock have left, and before answers are read. */
  | { readonly type: 'block-during-votes'; readonly durationMs: number }
  /** From now on `Date.now()` is wrong by this much. */
  | { readonly type: 'set-wall-clock'; readonly skewMs: number }
  /** Callers let go of what they have, and ask for nothing more until they may go on. */
  | { readonly type: 'rest' | 'go-on' }
  /** One more caller uses a lock of its own once. */
  | { readonly type: 'use'; readonly key: string; readonly waitMs: number }
  /** Asks for so many different keys at once, which no one else wants; answered with how many calls ended with what. */
  | { readonly type: 'burst'; readonly keys: number; readonly waitMs: number };
