import { randomUUID } from 'node:crypto';
import type { FenceStore, FenceTicket } from '../fence-store.ts';
import { ageCases } from './fence-ages.ts';
import { FENCE_CASES, inTurn } from './fence-cases.ts';

/** The options of {@link fenceConformance}. */
export interface FenceConformanceOptions {
  /**
   * A second instance of the store over the same data, as in a second process; holders use one or the other by turns. Without it
   * a store passes that locks in the memory of its process.
   */
  readonly second?: FenceStore;
  /**
   * The time that the older writer is held between its check and its write while the newer one works; a right store waits all of it,
   * once. On a slow machine too short a time hides a wrong store. @default 1_000
   */
  readonly gateMs?: number;
  /** The time that the fence lies idle before an older holder comes, which finds one that expires. @default 500 */
  readonly idleMs?: number;
  /** The number of holders that overlap on each resource, each with one or two writes. @default 60 */
  readonly sessions?: number;
  /** The time that one case may take before it counts as failed. @default 30_000 */
  readonly caseTimeoutMs?: number;
}

/** A case and, when it failed, why. */
export interface FenceConformanceCase {
  /** The behavior of a right store. */
  readonly name: string;
  /** The failure of this store: what it did instead; absent when it passed. */
  readonly failure?: string;
}

/** What the kit saw. */
export interface FenceConformanceReport {
  /** Whether all cases passed. */
  readonly passed: boolean;
  /** All cases, in the order in which they ran. */
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
  const { gateMs = 1_000, idleMs = 500, sessions = 60, caseTimeoutMs = 30_000 } = options;
  const store = prepared(first, options.second);
  const run = `conformance:${randomUUID()}`;
  const cases: FenceConformanceCase[] = [];
  for (const [name, steps] of Object.entries({ ...FENCE_CASES, ...ageCases(store) })) {
    const resource = `${run}:${cases.length}`;
    const trial = inTurn(steps)(store, resource, { gateMs, idleMs, sessions });
    const failure = await failureWithin(trial, caseTimeoutMs);
    cases.push(failure === undefined ? { name } : { name, failure });
  }
  return { passed: cases.every((each) => each.failure === undefined), cases };
}

/** Smaller ones are no times of these years. */
const FIRST_TIME = 1_500_000_000_000_000n;
/** With it the token 10 becomes the first time with 17 digits, in 2286. */
const AHEAD = 9_999_999_999_999_990n;

/** Tokens that are even go to the second instance. Where their age counts, small ones become times that are far ahead. */
function prepared(first: FenceStore, second = first): FenceStore {
  const instance = ({ token }: FenceTicket): FenceStore =>
    BigInt(token) % 2n === 0n ? second : first;
  const timed = (each: FenceTicket): FenceTicket =>
    first.maxAge !== undefined && BigInt(each.token) < FIRST_TIME
      ? { ...each, token: String(AHEAD + BigInt(each.token)) }
      : each;
  return {
    // A hook may also throw at once.
    claim: async (each) => instance(each).claim(timed(each)),
    read: async (each) => instance(each).read(timed(each)),
    write: async (each, text, pause) => instance(each).write(timed(each), text, pause),
    ...(first.isStale && { isStale: (error: unknown) => first.isStale!(error) }),
    ...(first.maxAge !== undefined && { maxAge: first.maxAge }),
    ...(first.prune && { prune: (past) => (second.prune ? second : first).prune!(past) }),
  };
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

async function failureWithin(run: Promise<void>, timeoutMs: number): Promise<string | undefined> {
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
