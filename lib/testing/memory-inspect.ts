import type { InspectReply, InspectRequest } from '../core/lock-node.ts';
import { fenceOf, type MemoryState, pairsOf } from './memory-state.ts';

/** INSPECT: the first owner found, the longest life and the highest fence of the keys. */
export function inspect(state: MemoryState, request: InspectRequest): InspectReply {
  const pairs = pairsOf(request.names);
  const held = pairs.filter((pair) => state.locks.get(pair.lock) !== undefined);
  const lives = held.map((pair) => state.locks.remainingMs(pair.lock));
  const owner = held[0] === undefined ? null : (state.locks.get(held[0].lock) ?? null);
  return {
    kind: 'inspected',
    owner,
    remainingMs: lives.includes(-1) ? -1 : Math.max(0, ...lives),
    fence: Math.max(...pairs.map((pair) => fenceOf(state, pair))),
  };
}
