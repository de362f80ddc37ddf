import type { Environment, TimerHandle } from '../environment.ts';
import type { NodeSession } from '../nodes/node-session.ts';

/** A subscription outlives its last watcher by this, because the next in line usually comes at once. */
const LINGER_MS = 1_000;
const MAX_OWN_NONCES = 8;

/** How many watches need it; `lingering` when none does. */
interface Subscription {
  watches: number;
  lingering: TimerHandle;
}

/**
 * Spreads word of releases to whoever waits. A hint is never evidence: it only ends a wait early, and losing, doubling
 * or forging one costs a late or an extra try.
 */
export class HintBoard {
  readonly #sessions: readonly NodeSession[];
  readonly #environment: Environment;
  readonly #watches = new Map<string, Set<HintWatch>>();
  readonly #subscriptions = new Map<string, Subscription>();
  #closed = false;

  constructor(sessions: readonly NodeSession[], environment: Environment) {
    this.#sessions = sessions;
    this.#environment = environment;
  }

  /** Whether releases of any of these locks are heard already, through somebody else's subscription. */
  hears(keys: readonly string[], keyPrefix: string): boolean {
    return (
      this.#subscriptions.size > 0 && keys.some((key) => this.#subscriptions.has(keyPrefix + key))
    );
  }

  /** Releases of `lockNames` in this process; `subscribe()` adds those of others. */
  watch(lockNames: readonly string[]): HintWatch {
    return new HintWatch(this, lockNames, this.#environment);
  }

  /** A release was heard; `holder` is `null` when something may have been missed. */
  hint(lockName: string, holder: string | null): void {
    for (const watch of this.#watches.get(lockName) ?? []) watch.hint(holder);
  }

  /** Everybody tries again: the set of voting nodes changed. */
  hintAll(): void {
    for (const watches of this.#watches.values()) for (const watch of watches) watch.hint(null);
  }

  add(lockName: string, watch: HintWatch): void {
    const watches = this.#watches.get(lockName);
    if (watches === undefined) this.#watches.set(lockName, new Set([watch]));
    else watches.add(watch);
  }

  remove(lockName: string, watch: HintWatch): void {
    const watches = this.#watches.get(lockName);
    watches?.delete(watch);
    if (watches?.size === 0) this.#watches.delete(lockName);
  }

  subscribe(lockName: string): void {
    const subscription = this.#subscriptions.get(lockName);
    if (subscription === undefined) {
      this.#subscriptions.set(lockName, { watches: 1, lingering: undefined });
      for (const session of this.#sessions) session.node.watch(lockName);
      return;
    }
    subscription.watches += 1;
    this.#environment.timers.clear(subscription.lingering);
  }

  unsubscribe(lockName: string): void {
    const subscription = this.#subscriptions.get(lockName);
    if (subscription === undefined) return;
    subscription.watches -= 1;
    if (subscription.watches > 0 || this.#closed) return;
    subscription.lingering = this.#environment.timers.set(
      () => {
        this.#subscriptions.delete(lockName);
        for (const session of this.#sessions) session.node.unwatch(lockName);
      },
      LINGER_MS,
      true,
    );
  }

  /** The nodes are about to be closed, which ends every subscription. */
  close(): void {
    this.#closed = true;
    for (const { lingering } of this.#subscriptions.values())
      this.#environment.timers.clear(lingering);
  }
}

/** One waiter's ear. */
export class HintWatch {
  readonly #board: HintBoard;
  readonly #lockNames: readonly string[];
  readonly #environment: Environment;
  /** Nonces of our latest tries; older ones are no longer published. */
  readonly #own: string[] = [];
  #subscribed = false;
  #pending = false;
  #wake: (() => void) | undefined;

  constructor(board: HintBoard, lockNames: readonly string[], environment: Environment) {
    this.#board = board;
    this.#lockNames = lockNames;
    this.#environment = environment;
    for (const lockName of lockNames) board.add(lockName, this);
  }

  /** Also hear the releases of other processes, through the nodes. */
  subscribe(): void {
    if (this.#subscribed) return;
    this.#subscribed = true;
    for (const lockName of this.#lockNames) this.#board.subscribe(lockName);
  }

  /** A try begins: hints count from now on, because the release may be heard before the answer to the try. */
  begin(): void {
    this.#pending = false;
  }

  /** Our own abandoned attempts tell us nothing. */
  ignore(holder: string): void {
    this.#own.push(holder);
    if (this.#own.length > MAX_OWN_NONCES) this.#own.shift();
  }

  hint(holder: string | null): void {
    if (holder !== null && this.#own.includes(holder)) return;
    this.#pending = true;
    this.#wake?.();
  }

  /** Resolves true at a hint (at once when there was one since `begin`), false after `ms` or when interrupted. */
  wait(ms: number, onInterrupt: (interrupt: () => void) => void): Promise<boolean> {
    if (this.#pending) return Promise.resolve(true);
    return new Promise((resolve) => {
      const finish = (hinted: boolean) => {
        this.#environment.timers.clear(timer);
        this.#wake = undefined;
        resolve(hinted);
      };
      const timer = this.#environment.timers.set(() => finish(false), ms);
      this.#wake = () => finish(true);
      onInterrupt(() => finish(false));
    });
  }

  close(): void {
    for (const lockName of this.#lockNames) {
      this.#board.remove(lockName, this);
      if (this.#subscribed) this.#board.unsubscribe(lockName);
    }
  }
}
