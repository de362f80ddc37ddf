import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import type { RedisServer } from '../test/support/redis-servers/redis-server.ts';
import type { Contestant } from './contestant.ts';
import {
  ACQUIRE,
  connectAll,
  connectClients,
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

/** Client with one lock at a time: acquire and release. */
export async function acquireAndRelease(
  urls: readonly string[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const contestants = await connectAll([RAW, NOISE, RAW_FENCED, ACQUIRE], urls);
  return compare(`acquire and release, N=${urls.length}`, contestants, urls, plan, progressOf);
}

/** The same over the client libraries. */
export async function overClients(
  urls: readonly string[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const scenario = `client libraries, one caller, N=${urls.length}`;
  return compare(scenario, await connectClients(urls), urls, plan, progressOf);
}

/** Runs both on a server, with this process and the server on one core: what a state of the machine does at random otherwise. */
export async function onOneCore(
  server: RedisServer,
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const pids = [process.pid, server.pid!];
  const pin = (processors: string) =>
    pids.every((pid) => spawnSync('taskset', ['-acp', processors, String(pid)]).status === 0);
  const all = `0-${cpus().length - 1}`;
  if (!pin('0')) {
    const note = 'taskset is needed, which Linux has';
    return [{ scenario: 'on one core, N=1', contestant: RAW, value: Number.NaN, unit: '×', note }];
  }
  try {
    const taken = await acquireAndRelease([server.url], plan, progressOf);
    const sections = await emptySection([server.url], plan, progressOf);
    return [...taken, ...sections].map((result) => ({
      ...result,
      scenario: `${result.scenario}, on one core`,
    }));
  } finally {
    pin(all);
  }
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
