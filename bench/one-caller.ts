import type { Contestant } from './contestant.ts';
import {
  ACQUIRE,
  connectAll,
  FENCED,
  NOISE,
  RAW,
  RAW_FENCED,
  WITH_LOCK,
} from './lock-contestants.ts';
import { keyOf, measure, timesOf, type RoundPlan } from './measure.ts';
import { operationCosts } from './operation-costs.ts';
import type { ProgressOf } from './progress.ts';
import type { Result } from './report.ts';

const BARS: Readonly<Record<string, number>> = { [ACQUIRE]: 1.15 };

/** One client, one lock at a time: acquire and release. */
export async function acquireAndRelease(
  urls: readonly string[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const contestants = await connectAll([RAW, NOISE, RAW_FENCED, ACQUIRE], urls);
  return compare(`acquire and release, N=${urls.length}`, contestants, urls, plan, progressOf);
}

/** The same with a section that does nothing, by the call that each library has for this. */
export async function emptySection(
  urls: readonly string[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const locks = await connectAll([RAW, NOISE, WITH_LOCK, FENCED], urls);
  const contestants = locks.map((lock) => ({
    name: lock.name,
    cycle: (key: string) => lock.hold(key, async () => undefined),
    close: () => lock.close(),
  }));
  return compare(`an empty section, N=${urls.length}`, contestants, urls, plan, progressOf);
}

async function compare(
  scenario: string,
  contestants: readonly Contestant[],
  urls: readonly string[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const measured = await measure(contestants, plan, progressOf(scenario));
  const costs = await operationCosts(contestants, urls, plan.cycles, async (each, round) => {
    for (let index = 0; index < plan.cycles; index += 1)
      await each.cycle(keyOf(each, `cost:${round}:${index}`));
  });
  await Promise.all(contestants.map((contestant) => contestant.close()));
  return measured.map((each, index) => ({
    scenario,
    contestant: each.name,
    value: each.ratio,
    unit: '×',
    ...timesOf(each),
    ...costs[index],
    nodes: urls.length,
    ...(BARS[each.name] !== undefined && { bar: BARS[each.name] }),
  }));
}
