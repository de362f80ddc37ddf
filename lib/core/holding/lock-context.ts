import { AsyncLocalStorage } from 'node:async_hooks';
import { FencedUsageError, quoteKeys } from '../errors.ts';
import type { HeldLock } from './held-lock.ts';

/** The locks whose work this async call is part of, innermost first. */
interface Frame {
  /** Whose lock it is: two services in one process don't know each other's. */
  readonly service: object;
  readonly lock: HeldLock;
  readonly outer: Frame | undefined;
}

const STORAGE_KEY = Symbol.for('nestjs-fenced-lock/lock-context');
const shared = globalThis as { [STORAGE_KEY]?: AsyncLocalStorage<Frame> };
/** One for the process, also when two copies of this package are loaded. */
const storage = (shared[STORAGE_KEY] ??= new AsyncLocalStorage<Frame>());

/** Runs `work` as the work of `lock`. */
export function runInside<Result>(service: object, lock: HeldLock, work: () => Result): Result {
  return storage.run({ service, lock, outer: storage.getStore() }, work);
}

/** The innermost lock of this async context; it may have ended since. */
export function currentLock(service: object): HeldLock | undefined {
  for (let frame = storage.getStore(); frame !== undefined; frame = frame.outer) {
    if (frame.service === service) return frame.lock;
  }
  return undefined;
}

/**
 * The lock of this async context that holds all of `keys` at the moment, or undefined when it holds none of them.
 *
 * @throws FencedUsageError when only some are held, or by different locks: waiting for the rest could wait for oneself,
 * and no single token would cover the set
 */
export function enclosingLock(service: object, keys: readonly string[]): HeldLock | undefined {
  if (storage.getStore() === undefined) return undefined;
  const owners = new Set<HeldLock>();
  let covered = 0;
  for (const key of keys) {
    const owner = holderOf(service, key);
    if (owner === undefined) continue;
    covered += 1;
    owners.add(owner);
  }
  if (covered === 0) return undefined;
  const [owner] = owners;
  if (covered === keys.length && owners.size === 1) return owner;
  throw new FencedUsageError(
    `Keys ${quoteKeys(keys)} are partly held already by this call, by ${owners.size === 1 ? 'one lock' : 'several locks'}. Acquire all of them in one lock (one array of keys) at the outermost place.`,
    keys,
  );
}

function holderOf(service: object, key: string): HeldLock | undefined {
  for (let frame = storage.getStore(); frame !== undefined; frame = frame.outer) {
    if (frame.service === service && frame.lock.isHeld && frame.lock.keys.includes(key))
      return frame.lock;
  }
  return undefined;
}
