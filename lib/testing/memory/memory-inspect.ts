import type { InspectReply, InspectRequest } from '../../core/nodes/lock-node.ts';
import { highestFence, longestHolder, pairsOf } from './memory-state.ts';
import type { MemoryState } from './memory-state.ts';

/** INSPECT: who holds longest, and the highest fence. */
export function inspect(state: MemoryState, request: InspectRequest): InspectReply {
  const pairs = pairsOf(request.names);
  const holder = longestHolder(state, pairs) ?? { holder: null, remainingMs: 0 };
  return { kind: 'inspected', ...holder, floor: highestFence(state, pairs) };
}
