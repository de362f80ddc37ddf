import { startRedisServers } from '../test/support/redis-servers/index.ts';
import type { RedisServer } from '../test/support/redis-servers/redis-server.ts';
import type { Scenario } from './arguments.ts';
import { decoratorCost } from './decorator-cost.ts';
import { fenceCost } from './fence-cost.ts';
import { measureHeldHeap } from './held-heap.ts';
import { manyCallers } from './many-callers.ts';
import { measure, type RoundPlan } from './measure.ts';
import { RawLock } from './raw-lock.ts';
import { connectRedlock } from './redlock-contestant.ts';
import { allKept, table, type Result } from './report.ts';
import { abortCost, usedOnceCost } from './waiting-costs.ts';

const SEQUENTIAL_BAR = 1.15;
const FROZEN_BAR = 1.15;
const HELD_BAR_BYTES = 1_000;
const HELD_LOCKS = 10_000;

function progressOf(scenario: string): (share: number) => void {
  const write = process.stderr.isTTY;
  if (!write) process.stderr.write(`${scenario} …\n`);
  return (share) => {
    if (write)
      process.stderr.write(
        `\r\x1b[K${scenario} ${Math.round(share * 100)} %${share >= 1 ? '\n' : ''}`,
      );
  };
}

/** One client, one lock at a time. */
async function sequential(urls: readonly string[], plan: RoundPlan): Promise<Result[]> {
  const scenario = `acquire + release, N=${urls.length}`;
  const contestants = [
    await RawLock.connect('raw SET + compare-and-delete', urls),
    await RawLock.connect('the same again (noise)', urls),
    await RawLock.connect('raw SET + INCR script', urls, true),
    await connectRedlock('nestjs-fenced-lock', urls),
  ];
  const measured = await measure(contestants, plan, progressOf(scenario));
  await Promise.all(contestants.map((contestant) => contestant.close()));
  return measured.map(({ name, micros, ratio }) => ({
    scenario,
    contestant: name,
    value: ratio,
    unit: '×',
    micros,
    ...(name === 'nestjs-fenced-lock' && { bar: SEQUENTIAL_BAR }),
  }));
}

/** Five nodes, one of them stopped, against five that answer. */
async function oneFrozen(servers: readonly RedisServer[], plan: RoundPlan): Promise<Result[]> {
  const scenario = 'one of five frozen';
  const urls = servers.map(({ url }) => url);
  const [spare] = servers.slice(5);
  const contestants = [
    await connectRedlock('all five answer', urls.slice(0, 5)),
    await connectRedlock('one frozen', [...urls.slice(0, 4), spare!.url]),
  ];
  await spare!.freeze();
  try {
    const measured = await measure(contestants, plan, progressOf(scenario));
    return measured.map(({ name, micros, ratio }, index) => ({
      scenario,
      contestant: name,
      value: ratio,
      unit: '×',
      micros,
      ...(index === 1 && { bar: FROZEN_BAR }),
    }));
  } finally {
    await spare!.resume();
    await Promise.all(contestants.map((contestant) => contestant.close()));
  }
}

async function held(urls: readonly string[]): Promise<Result[]> {
  const scenario = `heap of ${HELD_LOCKS} held locks, N=${urls.length}`;
  const bytes = await measureHeldHeap(urls, HELD_LOCKS, progressOf(scenario));
  return [{ scenario, contestant: 'each lock', value: bytes, unit: 'B', bar: HELD_BAR_BYTES }];
}

/** Measures these scenarios and prints what was found. Resolves with whether every bar is kept. */
export async function runScenarios(names: readonly Scenario[]): Promise<boolean> {
  const servers = await startRedisServers(6);
  try {
    const urls = servers.slice(0, 5).map(({ url }) => url);
    const canFreeze = servers.every(({ canFault }) => canFault);
    const scenarios: Record<Scenario, () => Promise<Result[]>> = {
      'N=1': () => sequential(urls.slice(0, 1), { rounds: 60, warmUpRounds: 10, cycles: 200 }),
      'N=5': () => sequential(urls, { rounds: 60, warmUpRounds: 10, cycles: 80 }),
      callers: async () => [
        ...(await manyCallers(urls.slice(0, 1), progressOf)),
        ...(await manyCallers(urls, progressOf)),
      ],
      frozen: async () =>
        canFreeze ? oneFrozen(servers, { rounds: 40, warmUpRounds: 10, cycles: 80 }) : [],
      heap: () => held(urls),
      abort: () => abortCost(urls.slice(0, 3), progressOf('waiters aborted')),
      'used-once': () => usedOnceCost(urls.slice(0, 3), progressOf('keys used once')),
      decorator: () => decoratorCost(progressOf, { rounds: 200, warmUpRounds: 40, cycles: 400 }),
      fence: () => fenceCost(progressOf, { rounds: 100, warmUpRounds: 10, cycles: 5 }),
    };
    const results: Result[] = [];
    for (const name of names) results.push(...(await scenarios[name]()));
    process.stdout.write(`\n${table(results)}\n`);
    return allKept(results);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}
