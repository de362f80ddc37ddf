/** One completed call on a mutex, in the order in which it took effect. */
export type MutexOperation =
  /** `fence` is null when the caller got none (Jepsen's invalid fence): allowed, and it says nothing about order. */
  | { readonly type: 'acquire'; readonly client: string; readonly fence: number | null }
  | { readonly type: 'release'; readonly client: string }
  /** The lease of `client` ended by itself or by loss, however often it had entered. */
  | { readonly type: 'expire'; readonly client: string };

interface MutexState {
  readonly owner: string | null;
  /** How often the owner is inside. */
  readonly depth: number;
  /** The fence of this ownership; null as long as the owner has seen none. */
  readonly fence: number | null;
  readonly highestFence: number;
}

/** The state after an operation, or why it is impossible. */
type Step = MutexState | string;

/**
 * Jepsen's ReentrantFencedMutex (from its Hazelcast tests): one owner at a time, the fence of every new ownership exceeds every
 * fence seen before, and an owner that enters again gets the same fence. Where nobody enters again it is Jepsen's FencedMutex.
 *
 * Runs `operations`; the first impossible one, or null.
 */
export function findImpossible(
  operations: readonly MutexOperation[],
): { readonly index: number; readonly reason: string } | null {
  let state: MutexState = { owner: null, depth: 0, fence: null, highestFence: 0 };
  for (const [index, operation] of operations.entries()) {
    const next = operation.type === 'acquire' ? enter(state, operation) : leave(state, operation);
    if (typeof next === 'string') return { index, reason: next };
    state = next;
  }
  return null;
}

function leave(state: MutexState, { type, client }: MutexOperation): Step {
  const { owner, depth } = state;
  if (owner === null) return `${client} ends a lock that no one holds`;
  if (owner !== client) return `${client} ends a lock of ${owner}`;
  if (type === 'release' && depth > 1) return { ...state, depth: depth - 1 };
  return { ...state, owner: null, depth: 0, fence: null };
}

function enter(
  state: MutexState,
  { client, fence }: Extract<MutexOperation, { type: 'acquire' }>,
): Step {
  const { owner, highestFence } = state;
  const depth = state.depth + 1;
  if (owner !== null && owner !== client) return `${client} acquires while ${owner} holds`;
  if (owner === client && (fence === null || fence === state.fence)) return { ...state, depth };
  if (owner === client && state.fence !== null) {
    return `${client} enters again with fence ${fence}, having ${state.fence}`;
  }
  if (fence !== null && fence <= highestFence) {
    return `${client} acquires with fence ${fence}, but ${highestFence} was seen before`;
  }
  return { owner: client, depth, fence, highestFence: fence ?? highestFence };
}
