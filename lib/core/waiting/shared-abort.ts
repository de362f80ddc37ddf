/** What an abort ends. */
interface Cancellable {
  cancel(error: unknown): void;
}

/** All that one signal ends, behind one listener: Node warns of a leak from the eleventh on, and each costs its time. */
class AbortGroup {
  readonly members = new Set<Cancellable>();

  constructor(private readonly signal: AbortSignal) {
    signal.addEventListener('abort', this, { once: true });
  }

  handleEvent(): void {
    for (const member of this.members) member.cancel(this.signal.reason);
  }

  leave(member: Cancellable): void {
    this.members.delete(member);
    if (this.members.size > 0) return;
    this.signal.removeEventListener('abort', this);
    groups.delete(this.signal);
  }
}

const groups = new WeakMap<AbortSignal, AbortGroup>();

/** Cancels `member` with the reason of `signal` when that is aborted, until {@link ignoreAbort}. */
export function cancelOnAbort(signal: AbortSignal, member: Cancellable): void {
  let group = groups.get(signal);
  if (group === undefined) groups.set(signal, (group = new AbortGroup(signal)));
  group.members.add(member);
}

export function ignoreAbort(signal: AbortSignal, member: Cancellable): void {
  groups.get(signal)?.leave(member);
}
