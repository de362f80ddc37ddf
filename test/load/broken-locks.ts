import { LockBusyError } from '../../lib/core/errors.ts';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import type { Lock } from '../../lib/core/lock.ts';
import type { AcquireOptions } from '../../lib/core/options/options.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import type { TokenSource } from '../../lib/core/token-source.ts';
import type { MachineEnvironment } from './machine-environment.ts';

/** What a worker needs of a lock service. */
export type LockSource = Pick<Redlock, 'acquire' | 'withLock' | 'close'>;

/**
 * Broken on purpose: excludes callers of this process only, as if it were the only one. Its tokens are the wall clock.
 * For the negative control: a checker that accepts its history is worth nothing.
 */
export class LocksWithoutServers implements LockSource {
  readonly #environment: MachineEnvironment;
  readonly #ttlMs: number;
  readonly #held = new Set<string>();

  constructor(environment: MachineEnvironment, ttlMs: number) {
    this.#environment = environment;
    this.#ttlMs = ttlMs;
  }

  async acquire(keys: string | readonly string[], _options?: AcquireOptions): Promise<Lock> {
    const set = [keys].flat();
    if (set.some((key) => this.#held.has(key))) throw new LockBusyError(set, 0, undefined);
    for (const key of set) this.#held.add(key);
    const { clock, random } = this.#environment;
    const token = new FencingToken(clock.wallMicros(), set, random.holder());
    const validUntil = clock.monotonicMs() + this.#ttlMs;
    const release = async (): Promise<void> => set.forEach((key) => this.#held.delete(key));
    return {
      keys: set,
      token,
      signal: new AbortController().signal,
      get remainingMs() {
        return Math.max(0, validUntil - clock.monotonicMs());
      },
      get isHeld() {
        return clock.monotonicMs() < validUntil;
      },
      ensure: () => undefined,
      extend: () => Promise.resolve(),
      release,
      [Symbol.asyncDispose]: release,
    };
  }

  async withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
  ): Promise<Result> {
    await using lock = await this.acquire(keys);
    return await work(lock);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Broken on purpose: the locks may be right, but tokens from clocks that differ between processes are not. */
export function wallClockTokens({ clock }: MachineEnvironment): TokenSource {
  return { issue: () => Promise.resolve(Math.floor(clock.wallMicros() / 1_000)) };
}
