import type { Marker, MemoryState } from './memory-state.ts';

export type VotingRight =
  | { readonly kind: 'open'; readonly marker: Marker }
  | { readonly kind: 'quarantined'; readonly remainingMs: number }
  | { readonly kind: 'unjoined' };

/** Whether this server may vote now, from the marker that join wrote. */
export function votingRight(state: MemoryState, markerName: string): VotingRight {
  const marker = state.markers.get(markerName);
  if (marker === undefined) return { kind: 'unjoined' };
  const leftMicros = marker.voteAfterMs * 1000 - state.nowMicros();
  // More than the whole quarantine is left: the clock went back since the join.
  if (leftMicros > marker.restartGuardMs * 1000) return { kind: 'unjoined' };
  if (leftMicros > 0) return { kind: 'quarantined', remainingMs: Math.ceil(leftMicros / 1000) };
  return { kind: 'open', marker };
}
