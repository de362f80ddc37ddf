import { AsyncLocalStorage } from 'node:async_hooks';
import { FencedUsageError, quoteKeys, sameLoss } from '../errors.ts';
import type { Lock } from '../lock.ts';
import type { WithLockOptions } from '../options/options.ts';
import type { HeldLock } from './held-lock.ts';
import type { JoinedLock } from './joined-lock.ts';

/** Names the method under `@Fenced`, `Class.method`, in the options of the call that it makes. */
export const CALLED_BY = Symbol.for('nestjs-fenced-lock/called-by');
export type CalledOptions = WithLockOptions & { readonly [CALLED_BY]?: string };

/** Work that runs under a lock. Innermost first, sections are what an async context is inside of. */
interface Section {
  /** Whose lock it is: two services in one process don't know each other's. */
  readonly service: object;
  readonly lock: HeldLock;
  readonly handle: HeldLock | JoinedLock;
  readonly options: CalledOptions | undefined;
  outer: Frame | undefined;
}

/**
 * What an async context remembers. Work that a section started may outlive it, and start a section in turn: when one has
 * ended, nothing of it is remembered, so that a chain of jobs keeps no memory.
 */
interface Frame {
  section: Section | undefined;
  /** Of a section that has ended: the one outside, which may still run. */
  outer: Frame | undefined;
}

const STORAGE_KEY = Symbol.for('nestjs-fenced-lock/lock-context');
const shared = globalThis as { [STORAGE_KEY]?: AsyncLocalStorage<Frame> };
/** One for the process, also when two copies of this package are loaded. */
const storage = (shared[STORAGE_KEY] ??= new AsyncLocalStorage<Frame>());

/**
 * Runs `work` as a section of `lock`, and releases `handle` (the lock itself, or one that joined it) when it settles. An
 * error of the work is passed on as it is; a loss is reported only when the work had none.
 */
export async function runSection<Result>(
  service: object,
  lock: HeldLock,
  handle: HeldLock | JoinedLock,
  work: (lock: Lock) => Promise<Result> | Result,
  options: WithLockOptions | undefined,
  checkResult: ((result: unknown, keys: readonly string[]) => void) | undefined,
): Promise<Result> {
  const store = storage.getStore();
  const outer = store === undefined ? undefined : running(store);
  const section: Section = { service, lock, handle, options, outer };
  const frame: Frame = { section, outer: undefined };
  let result: Result;
  try {
    result = await storage.run(frame, work, handle);
  } catch (error) {
    await end(frame, section);
    throw error;
  }
  await end(frame, section);
  const { lossError } = handle;
  if (lossError === undefined || options?.onLost === 'ignore') {
    checkResult?.(result, handle.keys);
    return result;
  }
  throw sameLoss(lossError, result);
}

/** The handle of the innermost section of this async context that still runs. */
export function currentLock(service: object): Lock | undefined {
  for (let section = innermost(); section !== undefined; section = outerOf(section)) {
    if (section.service === service) return section.handle;
  }
  return undefined;
}

/** The locks of this service that are still held and that this async context is inside of; undefined when there are none. */
export function enclosingLocks(service: object): readonly HeldLock[] | undefined {
  if (storage.getStore() === undefined) return undefined;
  let locks: HeldLock[] | undefined;
  for (let section = innermost(); section !== undefined; section = outerOf(section)) {
    if (section.service === service && section.handle.isHeld) (locks ??= []).push(section.lock);
  }
  return locks;
}

/**
 * The innermost section of this async context whose lock holds all of `keys` at the moment, or undefined when none of them is
 * held. Only sections that still run count: what outlives its section acquires for itself.
 *
 * @throws FencedUsageError when only some are held, or by different locks: waiting for the rest could wait for oneself,
 * and no single token would cover the set; and when all are, unless `nested` says that the call is part of that section:
 * other work that a shared queue started there looks the same
 */
export function enclosingSection(
  service: object,
  keys: readonly string[],
  nested?: 'join',
): Section | undefined {
  if (storage.getStore() === undefined) return undefined;
  const sections = new Set<Section>();
  let covered = 0;
  for (const key of keys) {
    const section = sectionOf(service, key);
    if (section === undefined) continue;
    covered += 1;
    sections.add(section);
  }
  const [section] = sections;
  if (section === undefined) return undefined;
  const isWhole = covered === keys.length && sections.size === 1;
  if (isWhole && nested === 'join') return section;
  const holder = section.options?.[CALLED_BY] ?? 'a withLock';
  throw new FencedUsageError(
    isWhole
      ? `This call runs inside of ${holder}, which holds the lock ${quoteKeys(keys)}. If it is part of that work, give it nested: 'join' (withLock, @Fenced), and it runs under the same lock. If it is other work that a queue or an emitter started there, bind its callback outside of that section: AsyncResource.bind(callback). Nothing was locked.`
      : `This call already holds some of the keys ${quoteKeys(keys)} (in ${sections.size === 1 ? 'one lock' : 'several locks'}). Acquire all of them together, as one array, in the outermost call.`,
    keys,
  );
}

function sectionOf(service: object, key: string): Section | undefined {
  for (let section = innermost(); section !== undefined; section = outerOf(section)) {
    const { lock, handle } = section;
    if (section.service === service && handle.isHeld && lock.keys.includes(key)) return section;
  }
  return undefined;
}

function innermost(): Section | undefined {
  return running(storage.getStore())?.section;
}

/** Those that have ended are dropped on the way, so that no walk is long. */
function outerOf(section: Section): Section | undefined {
  section.outer = running(section.outer);
  return section.outer?.section;
}

function running(frame: Frame | undefined): Frame | undefined {
  let nearest = frame;
  while (nearest !== undefined && nearest.section === undefined) nearest = nearest.outer;
  return nearest;
}

function end(frame: Frame, { outer, handle, options }: Section): Promise<void> | void {
  frame.section = undefined;
  if (outer !== undefined) frame.outer = running(outer);
  return options?.release === 'confirmed' ? handle.release() : handle.releaseSent();
}
