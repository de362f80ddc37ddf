import type { LockCall } from '../voting/attempt.ts';

export interface Call extends LockCall {
  /** The order of arrival in this process; below 0, the newest first, for calls that replace others. */
  readonly arrival: number;
  /** It was made inside of a section: others may wait for what that section holds. */
  readonly isInside: boolean;
  /** Why it was cancelled, if it was. Nothing may be held then, also when its lock has been granted. */
  cancelled?: { readonly error: unknown };
  /** What its caller waits for at the moment. */
  stage?: { readonly arrivedAtMs: number; cancelled(): void } | undefined;
}

/** Ends a call: it is rejected with `error`, and nothing is held. */
export function cancel(call: Call, error: unknown): void {
  call.cancelled ??= { error };
  call.stage?.cancelled();
}

/** The calls of one signal share a listener: Node.js warns of a leak from the eleventh on, and walks along all to add one. */
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
