import type { StartSettings } from './worker-process.ts';

/** How a worker gets its locks: the real ones, or broken on purpose, to see that the checker notices. */
export type LockKind = 'redlock' | 'without-servers' | 'wall-clock-tokens';

/** What a worker process is told, as JSON in its first argument. */
export interface WorkerSettings extends StartSettings {
  readonly urls: readonly string[];
  readonly keyPrefix: string;
  readonly keys: readonly string[];
  readonly ttlMs: number;
  /** How many callers compete inside the process. */
  readonly callers: number;
  /** How wrong the wall clock of this process is. */
  readonly wallSkewMs: number;
  readonly locks: LockKind;
}
