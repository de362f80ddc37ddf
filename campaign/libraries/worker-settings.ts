import type { StartSettings } from '../faults/worker/worker-process.ts';
import type { Column } from './library.ts';

/** The settings that a process is given at its start. */
export interface WorkerSettings extends StartSettings {
  readonly library: string;
  readonly column: Column;
  readonly urls: readonly string[];
  readonly resourcePort: number;
}

/** What the next holder suffers, or does, in whatever process. */
export interface Harm {
  readonly type: 'harm';
  /** It stops its process, blocks its event loop, or works for so long. */
  readonly how: 'stop' | 'block' | 'work';
  /** At its work, or when its library has just said that it has the lock, and before it writes. */
  readonly when: 'at work' | 'before write';
  readonly durationMs: number;
  /** The path of a file that is there as soon as a process has taken it, with the name of that. */
  readonly claim: string;
}

export type WorkerCommand =
  /** Wants this key from now on. */
  | { readonly type: 'begin'; readonly key: string }
  /** Answers when it holds nothing, and waits for nothing. */
  | { readonly type: 'rest' }
  | Harm
  /** Sets how far the wall clock of the process is ahead. */
  | { readonly type: 'set-clock'; readonly aheadMs: number };

export const TTL_MS = 1_000;
