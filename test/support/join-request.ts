import type { JoinRequest } from '../../lib/core/nodes/lock-node.ts';
import { FLOOR_RETENTION_MS, PROTOCOL_VERSIONS } from '../../lib/core/options/options.ts';

/** A request of a process without restart guard to a node, with other values where a test wants them. */
export function joinRequest(changes: Partial<JoinRequest> = {}): JoinRequest {
  return {
    markerName: 'lock:#marker',
    restartGuardMs: 0,
    floorRetentionMs: FLOOR_RETENTION_MS,
    versions: PROTOCOL_VERSIONS,
    configuration: '1 node:6379',
    failover: false,
    ...changes,
  };
}
