import type { JoinRequest } from './lock-node.ts';
import { markerName } from './node-names.ts';
import { FLOOR_RETENTION_MS } from '../options/options.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';

const MINIMUM_SILENCE_LIMIT_MS = 5_000;

export interface NodeSessionSettings {
  readonly join: JoinRequest;
  readonly nodeTimeoutMs: number;
  /** A connection that has not answered for this long is replaced: its network path may be gone without a word. */
  readonly silenceLimitMs: number;
  /** No key of ours lives longer than this. */
  readonly maxTtlMs: number;
}

export function sessionSettings(options: ResolvedOptions): NodeSessionSettings {
  const { maxTtlMs, restartGuardMs, keyPrefix, acquire } = options;
  return {
    join: {
      markerName: markerName(keyPrefix),
      restartGuardMs,
      floorRetentionMs: FLOOR_RETENTION_MS,
    },
    nodeTimeoutMs: acquire.nodeTimeoutMs,
    silenceLimitMs: Math.max(acquire.ttlMs, MINIMUM_SILENCE_LIMIT_MS),
    maxTtlMs,
  };
}
