import type { ReleaseReply, ReleaseRequest } from '../../core/nodes/lock-node.ts';
import { type LockPair, type MemoryState, pairsOf } from './memory-state.ts';

/** RELEASE: deletes only what this holder owns; an abandoned attempt leaves the fence as it found it. */
export function release(
  state: MemoryState,
  request: ReleaseRequest,
  publish: (lockName: string, holder: string) => number,
): ReleaseReply {
  const owned = pairsOf(request.names).filter(
    (pair) => state.locks.get(pair.lock) === request.holder,
  );
  let listeners = 0;
  for (const pair of owned) {
    state.locks.delete(pair.lock);
    if (!request.granted) restoreFence(state, pair);
    if (request.notify) listeners = Math.max(listeners, publish(pair.lock, request.holder));
  }
  const released = { kind: 'released', deleted: owned.length } as const;
  return listeners > 0 ? { ...released, listeners } : released;
}

function restoreFence(state: MemoryState, pair: LockPair): void {
  const fence = state.fences.get(pair.fence);
  if (fence === undefined) return;
  if (fence.previous === 0) state.fences.delete(pair.fence);
  else state.fences.replace(pair.fence, { fence: fence.previous, previous: fence.previous });
}
