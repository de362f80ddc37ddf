import { FencedUsageError, quoteKeys, sameLoss, type LockLostError } from '../errors.ts';
import type { FencingToken } from '../fencing-token.ts';
import type { Lock } from '../lock.ts';
import type { HeldLock } from './held-lock.ts';

/** Section inside a lock that its async context holds (`nested: 'join'`): same token. It keeps the lock until it ends. */
export class JoinedLock implements Lock {
  readonly keys: readonly string[];
  /** Why it was lost while in use. */
  lossError: LockLostError | undefined = undefined;
  readonly #outer: HeldLock;
  #abort: AbortController | undefined;
  #isReleased = false;

  constructor(outer: HeldLock, keys: readonly string[]) {
    this.#outer = outer;
    this.keys = keys;
    outer.join(this);
  }

  get token(): FencingToken {
    return this.#outer.token;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.lossError !== undefined) this.#abort.abort(sameLoss(this.lossError));
    }
    return this.#abort.signal;
  }

  get remainingMs(): number {
    return this.#isReleased || this.lossError !== undefined ? 0 : this.#outer.validityMs;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  ensure(ms = 0): void {
    this.#outer.noticeEnd();
    if (this.lossError !== undefined) throw sameLoss(this.lossError);
    if (this.#isReleased) throw usedAfterRelease(this.keys);
    this.#outer.ensureLeft(ms);
  }

  async extend(): Promise<void> {
    this.ensure();
    await this.#outer.extendNow();
    this.ensure();
  }

  /** As `release`, but waits no longer than until the bytes have left, when this use was the last. */
  releaseSent(): Promise<void> | undefined {
    void this.release();
    return this.#outer.isUnused ? this.#outer.sent : undefined;
  }

  async release(): Promise<void> {
    this.#outer.noticeEnd();
    this.#isReleased = true;
    await this.#outer.leave(this);
  }

  toJSON(): object {
    return shownLock(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** The lock ended before this use of it did, which `lossError` says already. */
  notifyLoss(): void {
    if (this.lossError !== undefined) this.#abort?.abort(sameLoss(this.lossError));
  }
}

/** What a log shows of it. */
export function shownLock({ keys, token, isHeld }: Lock): object {
  return { keys, token: token.value, holder: token.holder, isHeld };
}

export function usedAfterRelease(keys: readonly string[]): FencedUsageError {
  const what = `Lock ${quoteKeys(keys)} is used after its release.`;
  return new FencedUsageError(`${what} Do it inside the section, or acquire the lock again.`, keys);
}
