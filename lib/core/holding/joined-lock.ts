import { FencedUsageError, quoteKeys } from '../errors.ts';
import type { FencingToken } from '../fencing-token.ts';
import type { HeldLock } from './held-lock.ts';
import type { Lock } from '../lock.ts';

/** A nested use of a lock that the same async context holds: same token, and its release leaves the outer lock alone. */
export class JoinedLock implements Lock {
  readonly keys: readonly string[];
  readonly #outer: HeldLock;
  #released = false;

  constructor(outer: HeldLock, keys: readonly string[]) {
    this.#outer = outer;
    this.keys = keys;
  }

  get token(): FencingToken {
    return this.#outer.token;
  }

  get signal(): AbortSignal {
    return this.#outer.signal;
  }

  get remainingMs(): number {
    return this.#released ? 0 : this.#outer.remainingMs;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  ensure(ms?: number): void {
    this.#checkReleased();
    this.#outer.ensure(ms);
  }

  async extend(): Promise<void> {
    this.#checkReleased();
    await this.#outer.extend();
  }

  async release(): Promise<void> {
    this.#released = true;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  #checkReleased(): void {
    if (!this.#released) return;
    throw new FencedUsageError(
      `Lock ${quoteKeys(this.keys)} is used after its release.`,
      this.keys,
    );
  }
}
