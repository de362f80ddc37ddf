import type { LockEvent } from '../../lib/core/events.ts';
import type { Cluster } from '../unit/core/support/cluster.ts';

/** End of a call: `granted`, `null`, or the code of its error. */
export interface Outcome {
  readonly code: string;
  readonly tookMs: number;
  readonly error: unknown;
}

/** Waits for the end of an acquire; `nowMs` is the clock that counts. */
export async function outcomeOf(acquired: Promise<unknown>, nowMs: () => number): Promise<Outcome> {
  const startedAtMs = nowMs();
  try {
    const lock = await acquired;
    const code = lock === null ? 'null' : 'granted';
    return { code, tookMs: nowMs() - startedAtMs, error: undefined };
  } catch (error) {
    const { code = String(error) } = error as { code?: string };
    return { code, tookMs: nowMs() - startedAtMs, error };
  }
}

/** The outcomes of these calls of a cluster, in virtual time. */
export function outcomesOf(
  cluster: Cluster,
  calls: readonly Promise<unknown>[],
): Promise<Outcome[]> {
  const outcomes = calls.map((call) => outcomeOf(call, () => cluster.nowMs));
  return cluster.settle(Promise.all(outcomes));
}

/** Sleeps in the time of the cluster. */
export function sleepIn(cluster: Cluster, ms: number): Promise<void> {
  return new Promise((resolve) => cluster.environment.timers.set(resolve, ms));
}

export function eventsOf<Type extends LockEvent['type']>(
  events: readonly LockEvent[],
  type: Type,
): Extract<LockEvent, { readonly type: Type }>[] {
  return events.filter(
    (event): event is Extract<LockEvent, { readonly type: Type }> => event.type === type,
  );
}
