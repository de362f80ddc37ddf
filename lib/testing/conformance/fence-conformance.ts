import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FENCE_CASES, newerClaim, olderWrite, type FenceStep } from './fence-conformance-cases.ts';
import { interleaveFenceWriters } from './fence-conformance-interleaving.ts';
import { stressFence, type FenceStressOptions } from './fence-conformance-stress.ts';
import type { FenceStore, FenceTicket } from '../fence-store.ts';

/** Options of {@link fenceConformance}. */
export interface FenceConformanceOptions extends FenceStressOptions {
  /** In front of the names of all resources of this run. @default a random one */
  readonly resourcePrefix?: string;
  /**
   * How long the older writer is held between its check and its write while the newer one works; a right store waits all of it,
   * once. On a slow machine too short a time hides a wrong store. @default 1_000
   */
  readonly gateMs?: number;
  /**
   * Another instance of the store over the same data, as in a second process; holders use one or the other by turns. Without it
   * a store passes that locks in the memory of its process.
   */
  readonly second?: FenceStore;
  /** How long the fence lies idle before an older holder comes, which finds one that expires. @default 500 */
  readonly idleMs?: number;
  /** How long one case may take before it counts as failed. @default 30_000 */
  readonly caseTimeoutMs?: number;
}

/** One case and, when it failed, why. */
export interface FenceConformanceCase {
  readonly name: string;
  readonly failure?: string;
}

/** What the kit saw. */
export interface FenceConformanceReport {
  readonly passed: boolean;
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
  const store = options.second ? byTurns(first, options.second) : first;
  const stepsOf: Readonly<Record<string, readonly FenceStep[]>> = {
    ...FENCE_CASES,
    'an older holder is refused after the fence was idle': [
      newerClaim,
      () => sleep(idleMs),
      olderWrite,
    ],
    'a writer paused between its check and its write loses no update of a newer one': [
      (_store, resource) => interleaveFenceWriters(store, resource, gateMs),
    ],
    'overlapping holders, some with the same number, leave one unbroken chain of writes': [
      (_store, resource) => stressFence(store, resource, options),
    ],
  };
  const cases: FenceConformanceCase[] = [];
  for (const [name, steps] of Object.entries(stepsOf)) {
    const run = inTurn(steps, store, `${resourcePrefix}:${cases.length}`);
    const failure = await failureOf(run, options.caseTimeoutMs ?? 30_000);
    cases.push(failure === undefined ? { name } : { name, failure });
  }
  return { passed: cases.every((each) => each.failure === undefined), cases };
}

/** Even tokens go to one instance, odd ones to the other. */
function byTurns(first: FenceStore, second: FenceStore): FenceStore {
  const of = ({ token }: FenceTicket): FenceStore => (BigInt(token) % 2n === 0n ? second : first);
  return {
    claim: (ticket) => of(ticket).claim(ticket),
    read: (ticket) => of(ticket).read(ticket),
    write: (ticket, text, pause) => of(ticket).write(ticket, text, pause),
    ...(first.isStale && { isStale: (error: unknown) => first.isStale!(error) }),
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

async function inTurn(
  steps: readonly FenceStep[],
  store: FenceStore,
  resource: string,
): Promise<void> {
  for (const step of steps) await step(store, resource);
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
