/** What an abort ends. */
interface Cancellable {
  cancel(error: unknown): void;
}

/** All that one signal ends, behind one listener: Node warns of a leak from the eleventh on, and each costs its time. */
class AbortGroup {
  readonly #signal: AbortSignal;
  /** Nearly always one: a set would cost as much as the listener. */
  #members: Cancellable | Set<Cancellable>;

  constructor(signal: AbortSignal, first: Cancellable) {
    this.#signal = signal;
    this.#members = first;
    signal.addEventListener('abort', this, { once: true });
  }

  handleEvent(): void {
    const members = this.#members instanceof Set ? this.#members : [this.#members];
    for (const member of members) member.cancel(this.#signal.reason);
  }

  add(member: Cancellable): void {
    if (this.#members instanceof Set) this.#members.add(member);
    else this.#members = new Set([this.#members, member]);
  }

  leave(member: Cancellable): void {
    if (this.#members instanceof Set) {
      this.#members.delete(member);
      if (this.#members.size > 0) return;
    }
    this.#signal.removeEventListener('abort', this);
    groups.delete(this.#signal);
  }
}

const groups = new WeakMap<AbortSignal, AbortGroup>();

/** Cancels `member` with the reason of `signal` when that is aborted, until {@link ignoreAbort}. */
export function cancelOnAbort(signal: AbortSignal, member: Cancellable): void {
  const group = groups.get(signal);
  if (group === undefined) groups.set(signal, new AbortGroup(signal, member));
  else group.add(member);
}

export function ignoreAbort(signal: AbortSignal, member: Cancellable): void {
  groups.get(signal)?.leave(member);
}
