import type { JoinReply, JoinRequest } from '../core/lock-node.ts';
import type { Marker, MemoryState } from './memory-state.ts';

/** JOIN: the server remembers since when this start of it may vote. */
export function join(state: MemoryState, request: JoinRequest): JoinReply {
  const marker = state.markers.get(request.markerName);
  // A start that nobody joined yet, or everything was flushed.
  if (marker === undefined || marker.runId !== state.runId) {
    return quarantineFromNow(state, request, request.restartGuardMs);
  }
  if (marker.fenceRetentionMs !== request.fenceRetentionMs) {
    return { kind: 'disagree', fenceRetentionMs: marker.fenceRetentionMs };
  }
  const longerGuardMs = Math.max(marker.restartGuardMs, request.restartGuardMs);
  // The clock went back: what was promised before is unknown.
  if (marker.voteAfterMs - state.nowMs() > marker.restartGuardMs) {
    return quarantineFromNow(state, request, longerGuardMs);
  }
  // A rolling deploy may raise maxTtl: the time of the join stays, the guard grows.
  const joinedAtMs = marker.voteAfterMs - marker.restartGuardMs;
  return write(state, request.markerName, {
    ...marker,
    voteAfterMs: joinedAtMs + longerGuardMs,
    restartGuardMs: longerGuardMs,
  });
}

function quarantineFromNow(
  state: MemoryState,
  request: JoinRequest,
  restartGuardMs: number,
): JoinReply {
  return write(state, request.markerName, {
    voteAfterMs: state.nowMs() + restartGuardMs,
    runId: state.runId,
    restartGuardMs,
    fenceRetentionMs: request.fenceRetentionMs,
  });
}

function write(state: MemoryState, markerName: string, marker: Marker): JoinReply {
  state.markers.set(markerName, marker);
  return { kind: 'joined', quarantineMs: Math.max(0, marker.voteAfterMs - state.nowMs()) };
}
