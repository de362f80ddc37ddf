/** Call that an abort ends. */
interface Cancellable {
  cancel(error: unknown): void;
}

/** Calls of one signal, behind one listener: Node warns of a leak from the eleventh on, and adding one walks along all others. */
const members = new WeakMap<AbortSignal, Set<Cancellable>>();

function cancelAll(this: AbortSignal): void {
  for (const member of members.get(this) ?? []) member.cancel(this.reason);
}

/** Cancels `member` with the reason of `signal` when that is aborted, until {@link ignoreAbort}. */
export function cancelOnAbort(signal: AbortSignal, member: Cancellable): void {
  const known = members.get(signal);
  if (known !== undefined) return void known.add(member);
  members.set(signal, new Set([member]));
  signal.addEventListener('abort', cancelAll, { once: true });
}

export function ignoreAbort(signal: AbortSignal, member: Cancellable): void {
  const known = members.get(signal);
  if (known?.delete(member) !== true || known.size > 0) return;
  members.delete(signal);
  signal.removeEventListener('abort', cancelAll);
}
