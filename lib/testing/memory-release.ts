import type { ReleaseReply, ReleaseRequest } from '../core/lock-node.ts';
import { type LockPair, type MemoryState, pairsOf } from './memory-state.ts';

/** RELEASE: deletes only what this nonce owns; an abandoned attempt leaves the fence as it found it. */
export function release(
  state: MemoryState,
  request: ReleaseRequest,
  publish: (lockName: string, nonce: string) => void,
): ReleaseReply {
  const owned = pairsOf(request.names).filter(
    (pair) => state.locks.get(pair.lock) === request.nonce,
  );
  for (const pair of owned) {
    state.locks.delete(pair.lock);
    if (!request.granted) restoreFence(state, pair);
    if (request.notify) publish(pair.lock, request.nonce);
  }
  return { kind: 'released', deleted: owned.length };
}

function restoreFence(state: MemoryState, pair: LockPair): void {
  const fence = state.fences.get(pair.fence);
  if (fence === undefined) return;
  if (fence.previous === 0) state.fences.delete(pair.fence);
  else state.fences.replace(pair.fence, { fence: fence.previous, previous: fence.previous });
}
