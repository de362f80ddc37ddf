import type { ExtendReply, ExtendRequest } from '../core/lock-node.ts';
import { fenceLifeMs } from './memory-acquire.ts';
import { fenceOf, type LockPair, markerNameOf, type MemoryState, pairsOf } from './memory-state.ts';
import { votingRight } from './memory-voting-right.ts';

/** EXTEND: all keys or nothing, never shortens; a missing key is set again where nobody newer was accepted. */
export function extend(state: MemoryState, request: ExtendRequest): ExtendReply {
  const pairs = pairsOf(request.names);
  const missing = pairs.filter((pair) => state.locks.get(pair.lock) === undefined);
  if (isLost(state, request, pairs)) return { kind: 'lost' };
  const right = votingRight(state, markerNameOf(request.names));
  // Setting a key again is a vote.
  if (missing.length > 0 && right.kind !== 'open') return right;
  for (const pair of missing) recreate(state, request, pair);
  const fenceRetentionMs = state.markers.get(markerNameOf(request.names))?.fenceRetentionMs ?? 0;
  for (const pair of pairs) renew(state, request, pair, fenceRetentionMs);
  return { kind: 'extended', recreated: missing.length };
}

function isLost(state: MemoryState, request: ExtendRequest, pairs: readonly LockPair[]): boolean {
  return pairs.some((pair) => {
    const owner = state.locks.get(pair.lock);
    return owner === undefined ? fenceOf(state, pair) > request.ballot : owner !== request.nonce;
  });
}

function recreate(
  state: MemoryState,
  { nonce, ballot, ttlMs }: ExtendRequest,
  pair: LockPair,
): void {
  const { fence = 0, previous = 0 } = state.fences.get(pair.fence) ?? {};
  const raised = { fence: Math.max(fence, ballot), previous: Math.max(previous, ballot) };
  state.locks.set(pair.lock, nonce, ttlMs);
  state.fences.setForAtLeast(pair.fence, raised, ttlMs);
}

function renew(
  state: MemoryState,
  request: ExtendRequest,
  pair: LockPair,
  fenceRetentionMs: number,
): void {
  state.locks.setForAtLeast(pair.lock, request.nonce, request.ttlMs);
  const fence = state.fences.get(pair.fence);
  if (fence === undefined) return;
  state.fences.setForAtLeast(
    pair.fence,
    fence,
    fenceLifeMs(state, request.ballot, request.ttlMs, fenceRetentionMs),
  );
}
