import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  claims,
  FENCE_CASES,
  inTurn,
  staleWrite,
  type FenceStep,
} from './fence-conformance-cases.ts';
import {
  demandPause,
  interleaveFenceWriters,
  stressFence,
  type FenceStressOptions,
} from './fence-conformance-writers.ts';
import { FenceAges } from './fence-conformance-ages.ts';
import { demand, noPause, ticketFor, type FenceStore, type FenceTicket } from '../fence-store.ts';

/** The options of {@link fenceConformance}. */
export interface FenceConformanceOptions extends FenceStressOptions {
  /** The prefix of the names of all resources of this run. @default a random one */
  readonly resourcePrefix?: string;
  /**
   * Time that the older writer is held between its check and its write while the newer one works; a right store waits all of it,
   * once. On a slow machine too short a time hides a wrong store. @default 1_000
   */
  readonly gateMs?: number;
  /**
   * Second instance of the store over the same data, as in a second process; holders use one or the other by turns. Without it
   * a store passes that locks in the memory of its process.
   */
  readonly second?: FenceStore;
  /** The time that the fence lies idle before an older holder comes, which finds one that expires. @default 500 */
  readonly idleMs?: number;
  /** The time that one case may take before it counts as failed. @default 30_000 */
  readonly caseTimeoutMs?: number;
}

/** Case and, when it failed, why. */
export interface FenceConformanceCase {
  /** Behavior of a right store. */
  readonly name: string;
  /** The failure of this store: what it did instead; absent when it passed. */
  readonly failure?: string;
}

/** Report of what the kit saw. */
export interface FenceConformanceReport {
  /** Whether all cases passed. */
  readonly passed: boolean;
  /** Cases, all of them, in the order in which they ran. */
  readonly cases: readonly FenceConformanceCase[];
}

/**
 * Puts a store under the conditions in which wrong fences lose updates: stale and duplicate tokens, numbers near 2^53, a
 * writer frozen between its check and its write, and many overlapping holders as if there were no lock at all.
 *
 * Runs all cases and never rejects for a store that fails: look at the report, or call {@link assertFenceConformance}.
 *
 * @example
 * ```ts
 * const report = await fenceConformance(store);
 * logger.log(report);
 * ```
 */
export async function fenceConformance(
  first: FenceStore,
  options: FenceConformanceOptions = {},
): Promise<FenceConformanceReport> {
  const { resourcePrefix = `conformance:${randomUUID()}`, gateMs = 1_000, idleMs = 500 } = options;
  const store = prepared(first, options.second);
  const ages = store.maxAge === undefined ? undefined : new FenceAges(store, store.maxAge, options);
  const stepsOf: Readonly<Record<string, readonly FenceStep[]>> = {
    ...FENCE_CASES,
    'an older holder is rejected after the fence was idle': [
      claims(2),
      () => sleep(idleMs),
      staleWrite(1),
    ],
    'a writer paused between its check and its write loses no update of a newer one': [
      demandPause,
      claims(1),
      (_store, resource) => interleave(store, resource, gateMs),
    ],
    'overlapping holders, some with the same number, leave one unbroken chain of writes': [
      (_store, resource) => {
        const stress = () => stressFence(store, resource, options);
        return ages ? ages.beside(resource, stress) : stress();
      },
    ],
    ...ages?.cases(gateMs),
  };
  const cases: FenceConformanceCase[] = [];
  for (const [name, steps] of Object.entries(stepsOf)) {
    const run = inTurn(steps, store, `${resourcePrefix}:${cases.length}`);
    const failure = await failureOf(run, options.caseTimeoutMs ?? 30_000);
    cases.push(failure === undefined ? { name } : { name, failure });
  }
  return { passed: cases.every((each) => each.failure === undefined), cases };
}

/** Smaller ones are no times of these years. */
const FIRST_TIME = 1_500_000_000_000_000n;
/** 10 becomes the first time with 17 digits, in 2286. */
const AHEAD = 9_999_999_999_999_990n;

/** Tokens that are even go to the second instance. Where their age counts, small ones become times that are far ahead. */
function prepared(first: FenceStore, second = first): FenceStore {
  const of = ({ token }: FenceTicket): FenceStore => (BigInt(token) % 2n === 0n ? second : first);
  const timed = (each: FenceTicket): FenceTicket =>
    first.maxAge !== undefined && BigInt(each.token) < FIRST_TIME
      ? { ...each, token: String(AHEAD + BigInt(each.token)) }
      : each;
  return {
    // A hook may also throw at once.
    claim: async (each) => of(each).claim(timed(each)),
    read: async (each) => of(each).read(timed(each)),
    write: async (each, text, pause) => of(each).write(timed(each), text, pause),
    ...(first.isStale && { isStale: (error: unknown) => first.isStale!(error) }),
    ...(first.maxAge !== undefined && { maxAge: first.maxAge }),
    ...(first.prune && { prune: (past) => (second.prune ? second : first).prune!(past) }),
  };
}

async function interleave(store: FenceStore, resource: string, gateMs: number): Promise<void> {
  const newer = ticketFor(resource, 2);
  await interleaveFenceWriters(store, [ticketFor(resource, 1), newer], gateMs, async (history) => {
    demand(await history.claim(newer), 'the newer claim was rejected');
    demand(await history.readAndWrite(newer, noPause), 'the newer write was rejected');
  });
}

/**
 * The same, for the body of a test.
 *
 * @example
 * ```ts
 * await assertFenceConformance(store);
 * ```
 * @throws Error that lists the failed cases
 */
export async function assertFenceConformance(
  store: FenceStore,
  options?: FenceConformanceOptions,
): Promise<void> {
  const { cases } = await fenceConformance(store, options);
  const failed = cases.filter((each) => each.failure !== undefined);
  if (failed.length === 0) return;
  const lines = failed.map((each) => `  - ${each.name}: ${each.failure}`);
  throw new Error(
    `The store does not fence: ${failed.length} of ${cases.length} cases failed.\n${lines.join('\n')}`,
  );
}

async function failureOf(run: Promise<void>, timeoutMs: number): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`no end within ${timeoutMs} ms`), timeoutMs);
  });
  const outcome = run.then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  return Promise.race([outcome, late]).finally(() => clearTimeout(timer));
}
