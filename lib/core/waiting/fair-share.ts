/** As often one process may take a key in a row while other processes wait for it: hand-over inside a process is cheapest. */
const MAX_GRANTS_IN_A_ROW = 4;
const MAX_REMEMBERED = 4_096;

/**
 * Keeps one busy process from starving the others: whoever releases next to a waiter of the same process would win nearly
 * every race. The answer to a release tells how many processes listen for it; after a few grants in a row next to others,
 * this process lets one of them go first.
 */
export class FairShare {
  /** Grants in a row of keys for which other processes wait; keys without rivals need no memory. */
  readonly #grants = new Map<string, number>();

  /** A lock on `key` was released, and `rivals` other processes heard it. */
  released(key: string, rivals: number): void {
    if (rivals <= 0) {
      if (this.#grants.size > 0) this.#grants.delete(key);
      return;
    }
    this.#grants.set(key, (this.#grants.get(key) ?? 0) + 1);
    for (const oldest of this.#grants.keys()) {
      if (this.#grants.size <= MAX_REMEMBERED) break;
      this.#grants.delete(oldest);
    }
  }

  /** Whether it is the turn of another process; the next ones are ours again. */
  takeStepBack(keys: readonly string[]): boolean {
    if (this.#grants.size === 0) return false;
    let stepBack = false;
    for (const key of keys) {
      if ((this.#grants.get(key) ?? 0) < MAX_GRANTS_IN_A_ROW) continue;
      this.#grants.delete(key);
      stepBack = true;
    }
    return stepBack;
  }

  /** Another process holds it: our row is broken. */
  lost(keys: readonly string[]): void {
    if (this.#grants.size === 0) return;
    for (const key of keys) this.#grants.delete(key);
  }
}
