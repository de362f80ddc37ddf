import type { AcquireReply, AcquireRequest } from '../../core/nodes/lock-node.ts';
import { fenceOf, highestFence, longestHolder, markerNameOf, pairsOf } from './memory-state.ts';
import type { LockPair, Marker, MemoryState } from './memory-state.ts';
import { votingRight } from './memory-voting-right.ts';

const DAY_MICROS = 86_400_000_000;

/** ACQUIRE: all keys or nothing; only a free (or own) lock and a ballot above everything remembered is accepted. */
export function acquire(state: MemoryState, request: AcquireRequest): AcquireReply {
  const right = votingRight(state, markerNameOf(request.names));
  if (right.kind !== 'open') return right;
  const pairs = pairsOf(request.names);
  return (
    held(state, request, pairs) ??
    refused(state, request, pairs, right.marker) ??
    accept(state, request, pairs, right.marker)
  );
}

function held(
  state: MemoryState,
  request: AcquireRequest,
  pairs: readonly LockPair[],
): AcquireReply | undefined {
  const holder = longestHolder(state, pairs, request.holder);
  return holder && { kind: 'held', ...holder, floor: highestFence(state, pairs) };
}

function refused(
  state: MemoryState,
  { holder, ballot }: AcquireRequest,
  pairs: readonly LockPair[],
  marker: Marker,
): AcquireReply | undefined {
  const nowMicros = state.nowMicros();
  const known = Math.max(...pairs.map((pair) => refusedUpTo(state, pair, holder, ballot)));
  const clock = clockFloor(marker, nowMicros);
  const floor = Math.max(known, clock);
  if (ballot <= floor) return { kind: 'stale', floor, nowMicros, byClock: clock > known };
  const fence = highestFence(state, pairs);
  if (ballot > Math.max(nowMicros, fence) + DAY_MICROS)
    return { kind: 'ahead', nowMicros, floor: fence };
  return undefined;
}

/** The fence, except that a duplicate of our own accepted ballot is accepted again. */
function refusedUpTo(state: MemoryState, pair: LockPair, holder: string, ballot: number): number {
  const fence = fenceOf(state, pair);
  const duplicate = fence === ballot && state.locks.get(pair.lock) === holder;
  return duplicate ? ballot - 1 : fence;
}

/** What the node refuses without remembering it: fences that expired, and fences lost in a restart. */
function clockFloor(marker: Marker, nowMicros: number): number {
  const expired = nowMicros - marker.floorRetentionMs * 500;
  if (marker.restartGuardMs === 0) return expired;
  return Math.max(expired, marker.voteAfterMs * 1000 - marker.restartGuardMs * 500);
}

function accept(
  state: MemoryState,
  { holder, ballot, ttlMs }: AcquireRequest,
  pairs: readonly LockPair[],
  marker: Marker,
): AcquireReply {
  const keepMs = fenceLifeMs(state, ballot, ttlMs, marker.floorRetentionMs);
  for (const pair of pairs) {
    const before = state.fences.get(pair.fence);
    const mine = state.locks.get(pair.lock) === holder;
    const previous = (mine ? before?.previous : before?.fence) ?? 0;
    state.fences.setForAtLeast(pair.fence, { fence: ballot, previous }, keepMs);
    state.locks.set(pair.lock, holder, ttlMs);
  }
  return { kind: 'accepted' };
}

/** ttl + R past the later of now and the ballot. */
export function fenceLifeMs(
  state: MemoryState,
  ballot: number,
  ttlMs: number,
  floorRetentionMs: number,
): number {
  const aheadMs = Math.max(0, Math.ceil((ballot - state.nowMicros()) / 1000));
  return ttlMs + floorRetentionMs + aheadMs;
}
