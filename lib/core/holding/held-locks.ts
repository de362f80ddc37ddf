import type { HeldLock } from './held-lock.ts';

/** Hears of the ends of the locks of this process. */
export interface HeldLocksListener {
  /** A lock on `key` was released or lost; the nodes are being told. */
  released(key: string, holder: string): void;
  /** The nodes were told, and `listeners` connections with them. */
  heard(key: string, listeners: number): void;
}

/** The locks this process holds, by key: contenders in the same process wait for them without asking the nodes. */
export class HeldLocks {
  readonly #byKey = new Map<string, HeldLock>();
  readonly #listener: HeldLocksListener;

  constructor(listener: HeldLocksListener) {
    this.#listener = listener;
  }

  /** Whether every lock is released, be it that some are still kept for `minHold`. */
  get isIdle(): boolean {
    for (const lock of this.#byKey.values()) if (!lock.isReleased) return false;
    return true;
  }

  add(lock: HeldLock): void {
    for (const key of lock.keys) this.#byKey.set(key, lock);
  }

  delete(lock: HeldLock): void {
    for (const key of lock.keys) if (this.#byKey.get(key) === lock) this.#byKey.delete(key);
  }

  released(lock: HeldLock): void {
    for (const key of lock.keys) this.#listener.released(key, lock.holder);
  }

  heard(lock: HeldLock, listeners: number): void {
    for (const key of lock.keys) this.#listener.heard(key, listeners);
  }

  /** The lock on one of `keys` that runs longest, if any is held by this process. */
  blocking(keys: readonly string[]): HeldLock | undefined {
    if (this.#byKey.size === 0) return undefined;
    let longest: HeldLock | undefined;
    for (const key of keys) {
      const lock = this.#byKey.get(key);
      if (lock !== undefined && lock.occupiedMs > (longest?.occupiedMs ?? 0)) longest = lock;
    }
    return longest;
  }

  /** Every lock once. */
  all(): Set<HeldLock> {
    return new Set(this.#byKey.values());
  }
}
