import type { LockCall } from '../voting/attempt.ts';

/** A call for a lock. */
export interface Call extends LockCall {
  /** The order of arrival in this process. */
  readonly arrival: number;
  /** Made inside of a section: others may wait for what that holds. */
  readonly isInside: boolean;
  /** Reason why it was cancelled, if it was: after the grant nothing may be held all the same. */
  cancelled: { readonly error: unknown } | undefined;
  /** Receives the end of what its caller waits for at the moment. */
  stage: { readonly arrivedAtMs: number; cancelled(): void } | undefined;
}

/** Ends a call: it is rejected with `error`, and nothing is held. */
export function cancel(call: Call, error: unknown): void {
  call.cancelled ??= { error };
  call.stage?.cancelled();
}

/** Calls of one signal, behind one listener: Node warns of a leak from the eleventh on, and adding one walks along all others. */
const callsOf = new WeakMap<AbortSignal, Set<Call>>();

function cancelAll(this: AbortSignal): void {
  for (const call of callsOf.get(this) ?? []) cancel(call, this.reason);
}

/** Cancels `call` with the reason of `signal` when that is aborted, until {@link ignoreAbort}. */
export function cancelOnAbort(signal: AbortSignal, call: Call): void {
  const known = callsOf.get(signal);
  if (known !== undefined) return void known.add(call);
  callsOf.set(signal, new Set([call]));
  signal.addEventListener('abort', cancelAll, { once: true });
}

export function ignoreAbort(signal: AbortSignal, call: Call): void {
  const known = callsOf.get(signal);
  if (known?.delete(call) !== true || known.size > 0) return;
  callsOf.delete(signal);
  signal.removeEventListener('abort', cancelAll);
}
