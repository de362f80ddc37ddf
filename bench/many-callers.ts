import type { LockContestant } from './contestant.ts';
import {
  ACQUIRE,
  connectAll,
  connectClients,
  NOISE,
  RAW,
  RAW_FENCED,
  WITH_LOCK,
} from './lock-contestants.ts';
import { median, takeTurns } from './measure.ts';
import { operationCosts } from './operation-costs.ts';
import type { ProgressOf } from './progress.ts';
import type { Result } from './report.ts';

/** Microseconds for each lock. */
interface Cost {
  readonly wall: number;
  /** Processor time of this process. */
  readonly cpu: number;
  /** Calls that gave up. */
  readonly failed: number;
}

/** Number of callers, of their rounds, and of locks of one contestant in one round. */
export interface CallersPlan {
  readonly callers: number;
  readonly rounds: number;
  readonly warmUpRounds: number;
  readonly locks: number;
}

/** Many callers in one process, each with keys of its own: the rule in servers, and what few locks are made for. */
export async function manyCallers(
  urls: readonly string[],
  plan: CallersPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const { callers } = plan;
  const names = [RAW, NOISE, RAW_FENCED, ACQUIRE, WITH_LOCK];
  return compare(
    `${callers} callers with keys of their own, N=${urls.length}`,
    await connectAll(names, urls),
    urls,
    plan,
    progressOf,
  );
}

/** The same over the client libraries. */
export async function manyCallersOverClients(
  urls: readonly string[],
  plan: CallersPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const scenario = `client libraries, ${plan.callers} callers with keys of their own, N=${urls.length}`;
  return compare(scenario, await connectClients(urls), urls, plan, progressOf);
}

async function compare(
  scenario: string,
  contestants: readonly LockContestant[],
  urls: readonly string[],
  { callers, locks, ...plan }: CallersPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const run = (contestant: LockContestant) => costOf(contestant, callers, locks);
  const taken = await takeTurns(contestants, plan, run, progressOf(scenario));
  const costs = await operationCosts(contestants, urls, locks, async (contestant) => {
    await run(contestant);
  });
  await Promise.all(contestants.map((contestant) => contestant.close()));
  const base = taken[0]!;
  return contestants.map(({ name }, index) => {
    const rounds = taken[index]!;
    const failed = rounds.reduce((sum, round) => sum + round.failed, 0);
    return {
      scenario,
      contestant: name,
      // Throughput: more is better, unlike everywhere else.
      value: median(rounds.map(({ wall }, round) => base[round]!.wall / wall)),
      unit: '× throughput',
      micros: median(rounds.map(({ wall }) => wall)),
      clientCpu: median(rounds.map(({ cpu }) => cpu)),
      ...costs[index],
      callers,
      nodes: urls.length,
      ...(failed > 0 && { note: `${failed} of ${locks * rounds.length} calls gave up` }),
    };
  });
}

let runs = 0;

async function costOf(contestant: LockContestant, callers: number, locks: number): Promise<Cost> {
  runs += 1;
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  let left = locks;
  let failed = 0;
  const caller = async (_: unknown, index: number): Promise<void> => {
    for (let cycle = 0; left > 0; cycle += 1) {
      left -= 1;
      await contestant.cycle(`bench:${runs}:${index}:${cycle}`).catch(() => (failed += 1));
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const { user, system } = process.cpuUsage(cpu);
  return {
    wall: ((performance.now() - startedAtMs) * 1_000) / locks,
    cpu: (user + system) / locks,
    failed,
  };
}
