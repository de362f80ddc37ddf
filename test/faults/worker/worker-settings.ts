import type { RedlockOptions } from '../../../lib/core/options/options.ts';
import type { StartSettings } from '../../load/worker-process.ts';

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

/** What a worker process is told, as JSON in its first argument. */
export interface CampaignWorkerSettings extends StartSettings {
  /** The servers as this worker reaches them. */
  readonly urls: readonly string[];
  readonly keyPrefix: string;
  readonly ttlMs: number;
  readonly load: Load;
  readonly resourcePort: number;
  /** How wrong the wall clock of this process is from its start. */
  readonly wallSkewMs: number;
  /** Further options of the lock service: negative controls take guards away. */
  readonly options: Pick<RedlockOptions, 'restartGuard'>;
}

/** What a worker is told while it runs. */
export type WorkerCommand =
  /** The next holder stops its own process after it has asked its lock whether it may write, and before it writes. */
  | { readonly type: 'stop-between-check-and-write' }
  /** The same, but its event loop is blocked for so long. */
  | { readonly type: 'block-between-check-and-write'; readonly durationMs: number }
  /** From now on `Date.now()` is wrong by this much. */
  | { readonly type: 'set-wall-clock'; readonly skewMs: number };

/** What a worker tells: it competes for locks from now on. */
export interface WorkerMessage {
  readonly type: 'started';
}
