import type { ExtendReply, ExtendRequest } from '../../core/nodes/lock-node.ts';
import { fenceLifeMs } from './memory-acquire.ts';
import { fenceOf, markerNameOf, pairsOf } from './memory-state.ts';
import type { LockPair, MemoryState } from './memory-state.ts';
import { votingRight } from './memory-voting-right.ts';

/** EXTEND: all keys or nothing, never shortens; a missing key is set again where nobody newer was accepted. */
export function extend(state: MemoryState, request: ExtendRequest): ExtendReply {
  const pairs = pairsOf(request.names);
  if (pairs.some((pair) => isLost(state, request, pair))) return { kind: 'lost' };
  const missing = pairs.filter((pair) => state.locks.get(pair.lock) === undefined);
  const right = votingRight(state, markerNameOf(request.names));
  // Setting a key again is a vote.
  if (missing.length > 0 && right.kind !== 'open') return right;
  for (const pair of pairs) renew(state, request, pair);
  return { kind: 'extended', recreated: missing.length };
}

function isLost(state: MemoryState, request: ExtendRequest, pair: LockPair): boolean {
  const holder = state.locks.get(pair.lock);
  return holder === undefined ? fenceOf(state, pair) > request.ballot : holder !== request.holder;
}

function renew(
  state: MemoryState,
  { names, holder, ballot, ttlMs }: ExtendRequest,
  pair: LockPair,
): void {
  const lockLifeMs = Math.max(0, state.locks.remainingMs(pair.lock));
  const fenceRemainingMs = state.fences.remainingMs(pair.fence);
  // Without marker the distance that acquire put between lock and fence stands for R.
  const retentionMs =
    state.markers.get(markerNameOf(names))?.floorRetentionMs ??
    Math.max(0, fenceRemainingMs - lockLifeMs);
  const before = state.fences.get(pair.fence);
  const missing = state.locks.get(pair.lock) === undefined;
  const raise = before === undefined || before.fence < ballot || missing;
  const fence = raise ? { fence: ballot, previous: ballot } : before;
  state.fences.setForAtLeast(
    pair.fence,
    fence,
    fenceLifeMs(state, fence.fence, ttlMs, retentionMs),
  );
  state.locks.setForAtLeast(pair.lock, holder, ttlMs);
}
