/** One completed call on a mutex, in the order in which it took effect. */
export type MutexOperation =
  /** `fence` is null when the caller got none (Jepsen's invalid fence): allowed, and it says nothing about order. */
  | { readonly type: 'acquire'; readonly client: string; readonly fence: number | null }
  | { readonly type: 'release'; readonly client: string }
  /** The lease of `client` ended by itself or by loss, however often it had entered. */
  | { readonly type: 'expire'; readonly client: string };

/** A state, or why the operation is impossible in the state before it. */
export type Step<State> = { readonly state: State } | { readonly impossible: string };

/** A sequential specification. */
export interface MutexModel<State> {
  readonly initial: State;
  step(state: State, operation: MutexOperation): Step<State>;
}

export interface FencedMutexState {
  readonly owner: string | null;
  readonly highestFence: number;
}

/**
 * Jepsen's FencedMutex (from its Hazelcast tests): one owner at a time, and the fence of every acquire exceeds every fence
 * seen before.
 */
export const fencedMutex: MutexModel<FencedMutexState> = {
  initial: { owner: null, highestFence: 0 },
  step({ owner, highestFence }, operation) {
    const { client } = operation;
    if (operation.type !== 'acquire') {
      if (owner !== client) return { impossible: `${client} ends a lock of ${owner ?? 'nobody'}` };
      return { state: { owner: null, highestFence } };
    }
    if (owner !== null) return { impossible: `${client} acquires while ${owner} holds` };
    return raise(highestFence, operation.fence, client, (highest) => ({
      owner: client,
      highestFence: highest,
    }));
  },
};

export interface ReentrantFencedMutexState {
  readonly owner: string | null;
  /** How often the owner is inside. */
  readonly depth: number;
  /** The fence of this ownership; null as long as the owner has seen none. */
  readonly fence: number | null;
  readonly highestFence: number;
}

/** Jepsen's ReentrantFencedMutex: as above, and an owner that enters again gets the same fence. */
export const reentrantFencedMutex: MutexModel<ReentrantFencedMutexState> = {
  initial: { owner: null, depth: 0, fence: null, highestFence: 0 },
  step(state, operation) {
    const { owner, depth, fence, highestFence } = state;
    const { client } = operation;
    if (operation.type !== 'acquire') {
      if (owner !== client) return { impossible: `${client} ends a lock of ${owner ?? 'nobody'}` };
      if (operation.type === 'release' && depth > 1)
        return { state: { ...state, depth: depth - 1 } };
      return { state: { owner: null, depth: 0, fence: null, highestFence } };
    }
    if (owner !== null && owner !== client) {
      return { impossible: `${client} acquires while ${owner} holds` };
    }
    if (owner === client && (operation.fence === null || operation.fence === fence)) {
      return { state: { ...state, depth: depth + 1 } };
    }
    if (owner === client && fence !== null) {
      return {
        impossible: `${client} enters again with fence ${operation.fence}, having ${fence}`,
      };
    }
    return raise(highestFence, operation.fence, client, (highest) => ({
      owner: client,
      depth: depth + 1,
      fence: operation.fence,
      highestFence: highest,
    }));
  },
};

function raise<State>(
  highestFence: number,
  fence: number | null,
  client: string,
  next: (highestFence: number) => State,
): Step<State> {
  if (fence === null) return { state: next(highestFence) };
  if (fence > highestFence) return { state: next(fence) };
  return {
    impossible: `${client} acquires with fence ${fence}, but ${highestFence} was seen before`,
  };
}

/** Runs `operations` through `model`; the first impossible one, or null. */
export function findImpossible<State>(
  model: MutexModel<State>,
  operations: readonly MutexOperation[],
): { readonly index: number; readonly reason: string } | null {
  let state = model.initial;
  for (const [index, operation] of operations.entries()) {
    const result = model.step(state, operation);
    if ('impossible' in result) return { index, reason: result.impossible };
    state = result.state;
  }
  return null;
}
