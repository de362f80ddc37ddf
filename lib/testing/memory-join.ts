import type { JoinReply, JoinRequest } from '../core/lock-node.ts';
import type { Marker, MemoryState } from './memory-state.ts';

/** JOIN: the server remembers since when this incarnation of it may vote. */
export function join(state: MemoryState, request: JoinRequest): JoinReply {
  const nowMs = state.nowMs();
  const marker = state.markers.get(request.markerName);
  if (marker === undefined || isOfAnotherLife(marker, state.runId, nowMs)) {
    return write(state, request.markerName, {
      voteAfterMs: nowMs + request.restartGuardMs,
      runId: state.runId,
      restartGuardMs: request.restartGuardMs,
      fenceRetentionMs: request.fenceRetentionMs,
    });
  }
  if (marker.fenceRetentionMs !== request.fenceRetentionMs) {
    return { kind: 'disagree', fenceRetentionMs: marker.fenceRetentionMs };
  }
  if (marker.restartGuardMs >= request.restartGuardMs) return joined(state, marker);
  // A rolling deploy raised maxTtl: the time of the join stays, the guard grows.
  const joinedAtMs = marker.voteAfterMs - marker.restartGuardMs;
  return write(state, request.markerName, {
    ...marker,
    voteAfterMs: joinedAtMs + request.restartGuardMs,
    restartGuardMs: request.restartGuardMs,
  });
}

/** The server restarted since, or its clock went back. */
function isOfAnotherLife(marker: Marker, runId: string, nowMs: number): boolean {
  return marker.runId !== runId || marker.voteAfterMs - nowMs > marker.restartGuardMs;
}

function write(state: MemoryState, markerName: string, marker: Marker): JoinReply {
  state.markers.set(markerName, marker);
  return joined(state, marker);
}

function joined(state: MemoryState, marker: Marker): JoinReply {
  return { kind: 'joined', quarantineMs: Math.max(0, marker.voteAfterMs - state.nowMs()) };
}
