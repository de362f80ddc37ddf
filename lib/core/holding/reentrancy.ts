import { AsyncLocalStorage } from 'node:async_hooks';
import { FencedUsageError, quoteKeys, sameLoss } from '../errors.ts';
import type { Caller } from '../events.ts';
import { isAdmitted } from '../fencing-token.ts';
import type { Lock } from '../lock.ts';
import type { WithLockOptions } from '../options/options.ts';
import type { LockHandle } from './held-lock.ts';

/** Names the method under `@Fenced` in the options of the call that it makes. */
export const CALLED_BY = Symbol.for('nestjs-fenced-lock/called-by');
export type CalledOptions = WithLockOptions & { readonly [CALLED_BY]?: Caller };

/** Marks the options of a call whose keys `@Fenced` has made. Not enumerable: no log or comparison shows it. */
export function calledBy<Options extends object>(caller: Caller, options: Options): Options {
  return Object.defineProperty(options, CALLED_BY, { value: caller });
}

/** The work under a lock that an async context belongs to. */
interface Section {
  /** The service whose lock it is: two services in one process don't know each other's. */
  readonly service: object;
  /** Undefined when it has ended. Work that it started may outlive it, and then remembers nothing of it. */
  handle: LockHandle | undefined;
  outer: Section | undefined;
  readonly calledBy: Caller | undefined;
}

const STORAGE_KEY = Symbol.for('nestjs-fenced-lock/lock-context');
const shared = globalThis as { [STORAGE_KEY]?: AsyncLocalStorage<Section> };
/** The storage of the whole process, also when two copies of this package are loaded. */
const storage = (shared[STORAGE_KEY] ??= new AsyncLocalStorage<Section>());

/**
 * Runs `work` as a section of a lock, and releases `handle` when it settles. An error of the work is passed on as it is; a loss
 * is reported only when the work had none, and no fence has admitted its token. Where Node.js has wrapped that
 * loss in an error of its own, the loss is passed on.
 */
export async function runSection<Result>(
  service: object,
  handle: LockHandle,
  work: (lock: Lock) => Promise<Result> | Result,
  options: CalledOptions | undefined,
  checkResult: ((result: unknown, keys: readonly string[]) => void) | undefined,
): Promise<Result> {
  const outer = running(storage.getStore());
  const section: Section = { service, handle, outer, calledBy: options?.[CALLED_BY] };
  let result: Result;
  try {
    result = await storage.run(section, work, handle);
  } catch (error) {
    throw lossBehind(handle, error) ?? error;
  } finally {
    section.handle = undefined;
    section.outer = running(section.outer);
    if (options?.release === 'confirmed') await handle.release();
    else handle.end();
  }
  const { lossError } = handle;
  const onLost = options?.onLost ?? (lossError && isAdmitted(handle.token) ? 'ignore' : 'throw');
  if (lossError !== undefined && onLost === 'throw') throw sameLoss(lossError, result);
  checkResult?.(result, handle.keys);
  return result;
}

/** The loss that an error wraps, as timers, streams, events and child processes of Node.js do with the reason of a signal. */
function lossBehind(handle: LockHandle, error: unknown): unknown {
  if (handle.lossError === undefined) return undefined;
  const { name, cause } = Object(error) as Partial<Error>;
  return name === 'AbortError' && cause === handle.signal.reason ? cause : undefined;
}

/** The innermost section of this async context that still runs, and whose handle `isMeant`. */
export function currentSection(
  service: object,
  isMeant: (handle: LockHandle) => boolean = () => true,
): Section | undefined {
  for (let section = running(storage.getStore()); section; section = section.outer) {
    if (section.service === service && isMeant(section.handle!)) return section;
    // Drops the sections that have ended, so that no walk is long.
    section.outer = running(section.outer);
  }
  return undefined;
}

/**
 * The innermost section of this async context whose lock holds all of `keys` at the moment, or undefined when none of them is
 * held. Only sections that still run count: what outlives its section acquires for itself.
 *
 * @throws FencedUsageError when only some are held, or by different locks: waiting for the rest could wait for oneself,
 * and no single token would cover the set; and when all are, unless `nested` says that the call is part of that section:
 * other work that a shared queue started there looks the same. `'never'` is said by a call that can't join
 */
export function enclosingHandle(
  service: object,
  keys: readonly string[],
  nested?: 'join' | 'never',
): LockHandle | undefined {
  if (storage.getStore() === undefined) return undefined;
  const sections = new Set(keys.map((key) => currentSection(service, (each) => each.covers(key))));
  const [section] = sections;
  if (sections.size > 1)
    throw new FencedUsageError(
      `This call holds some of the keys ${quoteKeys(keys)} already, or holds them by several locks. Acquire all of them together, as one array, in the outermost call.`,
      keys,
    );
  if (section === undefined || nested === 'join') return section?.handle;
  const holder = section.calledBy?.where ?? 'a withLock';
  const remedy =
    nested === 'never'
      ? "use the lock that it has: acquire and tryAcquire can't join it, withLock with nested: 'join' can"
      : "give it nested: 'join' (withLock, @Fenced), and it runs under the same lock";
  throw new FencedUsageError(
    `This call runs inside of ${holder}, which holds the lock ${quoteKeys(keys)}. If it is part of that work, ${remedy}. If it is other work that a queue or an emitter started there, bind its callback outside of that section: AsyncResource.bind(callback). Nothing was locked.`,
    keys,
  );
}

function running(section: Section | undefined): Section | undefined {
  let nearest = section;
  while (nearest !== undefined && nearest.handle === undefined) nearest = nearest.outer;
  return nearest;
}
