import type { JoinReply, JoinRequest } from '../../core/nodes/lock-node.ts';
import type { Marker, MemoryState } from './memory-state.ts';

/** JOIN: the server remembers since when this start of it may vote. */
export function join(state: MemoryState, request: JoinRequest): JoinReply {
  // Read once: time stands still inside a script.
  const nowMs = state.nowMs();
  const marker = state.markers.get(request.markerName);
  if (marker?.runId === state.runId && marker.floorRetentionMs !== request.floorRetentionMs) {
    return { kind: 'disagree', floorRetentionMs: marker.floorRetentionMs };
  }
  const next = nextMarker(state, marker, request, nowMs);
  state.markers.set(request.markerName, next);
  return { kind: 'joined', quarantineMs: Math.max(0, next.voteAfterMs - nowMs) };
}

function nextMarker(
  state: MemoryState,
  marker: Marker | undefined,
  { restartGuardMs, floorRetentionMs: floorRetentionMs }: JoinRequest,
  nowMs: number,
): Marker {
  const { runId } = state;
  // A start that nobody joined yet, or everything was flushed.
  if (marker === undefined || marker.runId !== runId) {
    return { voteAfterMs: nowMs + restartGuardMs, runId, restartGuardMs, floorRetentionMs };
  }
  const longerGuardMs = Math.max(marker.restartGuardMs, restartGuardMs);
  // When the clock went back, what was promised before is unknown. Otherwise a rolling deploy may raise maxTtl: the time
  // of the join stays, the guard grows.
  const wentBack = marker.voteAfterMs - nowMs > marker.restartGuardMs;
  const joinedAtMs = wentBack ? nowMs : marker.voteAfterMs - marker.restartGuardMs;
  return { ...marker, voteAfterMs: joinedAtMs + longerGuardMs, restartGuardMs: longerGuardMs };
}
