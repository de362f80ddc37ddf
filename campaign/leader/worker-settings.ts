import type { StartSettings } from '../faults/worker/worker-process.ts';

/** The settings that a process is given at its start. */
export interface WorkerSettings extends StartSettings {
  /** The servers that give locks, as this process reaches them. */
  readonly urls: readonly string[];
  /** The database that the leader writes to, which is always reached. */
  readonly databaseUrl: string;
}

/** A request to a process while it runs. */
export type WorkerCommand =
  /** Says whether it leads. */
  | { readonly type: 'leads' }
  /** The leader stops its own process when it has just found that it leads, and before it writes. */
  | { readonly type: 'stop-before-write' }
  /** The same, but its event loop is blocked for so long. */
  | { readonly type: 'block-before-write'; readonly durationMs: number };

export const TTL_MS = 2_000;
export const NAME = 'campaign';
/** What the leader counts. Its records have the name of the lock. */
export const KEY = `leader:${NAME}`;
