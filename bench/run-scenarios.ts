import { cpus, totalmem } from 'node:os';
import { writeFileSync } from 'node:fs';
import { startRedisServers } from '../test/support/redis-servers/index.ts';
import type { RedisServer } from '../test/support/redis-servers/redis-server.ts';
import type { Arguments, Scenario } from './arguments.ts';
import { drawCharts } from './charts.ts';
import { contention, fairness } from './contention.ts';
import { decoratorCost } from './decorator-cost.ts';
import { frozenNodes, slowNode } from './faulty-nodes.ts';
import { fenceCost } from './fence-cost.ts';
import { extensionCosts, heapOfLocks } from './held-locks.ts';
import { manyCallers, manyCallersOverClients } from './many-callers.ts';
import { acquireAndRelease, emptySection, onOneCore, overClients } from './one-caller.ts';
import { peersHint } from './peers.ts';
import { postgresLocks } from './postgres-locks.ts';
import { progressOf } from './progress.ts';
import { allKept, tables, type Result } from './report.ts';
import { startUp } from './start-up.ts';
import { abortCost, usedOnceCost } from './waiting-costs.ts';

/** Number of callers with keys of their own, by the number of servers. */
const CALLERS: readonly (readonly [nodes: number, callers: number])[] = [
  ...[1, 8, 64, 512, 4_096].map((callers) => [1, callers] as const),
  ...[1, 64, 512].map((callers) => [3, callers] as const),
  ...[1, 8, 64, 512, 4_096].map((callers) => [5, callers] as const),
  ...[1, 64, 512].map((callers) => [7, callers] as const),
];
const QUICK_CALLERS: typeof CALLERS = [
  [1, 64],
  [5, 64],
];
/** Number of callers for one key, of their processes, and of servers. */
const CONTENTION = [
  { nodes: 1, callers: 128, processes: 1 },
  { nodes: 1, callers: 128, processes: 4 },
  { nodes: 5, callers: 16, processes: 1 },
  { nodes: 5, callers: 128, processes: 1 },
  { nodes: 5, callers: 128, processes: 4 },
  { nodes: 5, callers: 1_000, processes: 1 },
  { nodes: 5, callers: 1_000, processes: 4 },
];
const QUICK_CONTENTION: typeof CONTENTION = [{ nodes: 5, callers: 128, processes: 1 }];

/** Yields what each of its parts found. */
type Run = () => AsyncGenerator<Result[]>;

async function* each<Item>(
  items: readonly Item[],
  measure: (item: Item) => Promise<Result[]>,
): AsyncGenerator<Result[]> {
  for (const item of items) yield await measure(item);
}

function once(measure: () => Promise<Result[]>): Run {
  return () => each([measure], (call) => call());
}

/** Measurements of each scenario; less of it without `full`. */
function scenariosOn(servers: readonly RedisServer[], full: boolean): Record<Scenario, Run> {
  const urls = servers.map(({ url }) => url);
  const on = (nodes: number) => urls.slice(0, nodes);
  // Some thousand cycles of each before it counts: an application has been compiled long ago, and so has what it uses.
  const rounds = (few: number, many: number, cycles: number) => ({
    rounds: full ? many : few,
    warmUpRounds: 20,
    cycles,
  });
  const callersOn = ([nodes, callers]: (typeof CALLERS)[number]) => {
    const plan = {
      callers,
      // A round of many callers is long, and says more.
      rounds: callers > 1_000 ? 3 : 6,
      warmUpRounds: 2,
      locks: Math.max(nodes === 1 ? 4_000 : 2_000, callers),
    };
    return manyCallers(on(nodes), plan, progressOf);
  };
  return {
    'N=1': once(() => acquireAndRelease(on(1), rounds(20, 60, 200), progressOf)),
    'N=5': once(() => acquireAndRelease(on(5), rounds(20, 60, 80), progressOf)),
    sections: () =>
      each([1, 5], (nodes) =>
        emptySection(on(nodes), rounds(15, 60, nodes === 1 ? 120 : 60), progressOf),
      ),
    callers: () => each(full ? CALLERS : QUICK_CALLERS, callersOn),
    clients: () =>
      each([1, 64], (callers) =>
        callers === 1
          ? overClients(on(1), rounds(20, 60, 200), progressOf)
          : manyCallersOverClients(
              on(1),
              { callers, rounds: 12, warmUpRounds: 2, locks: 4_000 },
              progressOf,
            ),
      ),
    contention: () =>
      each(full ? CONTENTION : QUICK_CONTENTION, (plan) =>
        contention(on(plan.nodes), plan, progressOf),
      ),
    'one-core': once(() => onOneCore(servers[0]!, rounds(20, 60, 200), progressOf)),
    fairness: () => each([1, 4], (processes) => fairness(on(5), processes, progressOf)),
    frozen: once(() => frozenNodes(servers, rounds(20, 20, 40), progressOf)),
    slow: once(() => slowNode(on(5), { rounds: 10, warmUpRounds: 1, cycles: 20 }, progressOf)),
    held: () => each([1_000, 10_000], (count) => extensionCosts(on(5), count, progressOf)),
    heap: once(() => heapOfLocks(on(5), 10_000, progressOf)),
    'start-up': once(() => startUp(on(5), progressOf)),
    abort: once(() => abortCost(on(3), progressOf('waiters aborted'))),
    'used-once': once(() => usedOnceCost(on(3), progressOf('keys used once'))),
    decorator: once(() =>
      decoratorCost(progressOf, { rounds: 200, warmUpRounds: 40, cycles: 400 }),
    ),
    postgres: once(() => postgresLocks(progressOf)),
    fence: once(() => fenceCost(progressOf, { rounds: 100, warmUpRounds: 10, cycles: 5 })),
  };
}

/** Measures what was asked for and prints what was found. Resolves with whether every bar is kept. */
export async function runScenarios({ scenarios, full, json, charts }: Arguments): Promise<boolean> {
  const hint = peersHint();
  if (hint !== undefined) process.stderr.write(`${hint}\n`);
  const servers = await startRedisServers(7, { own: true });
  const results: Result[] = [];
  try {
    const runs = scenariosOn(servers, full);
    for (const name of scenarios) {
      for await (const found of runs[name]()) {
        process.stdout.write(`\n${tables(found)}\n\n`);
        results.push(...found);
        // Results are written after each part, because the whole may take half an hour.
        if (json !== undefined)
          writeFileSync(json, `${JSON.stringify({ machine: machine(), results }, null, 2)}\n`);
        if (charts !== undefined) drawCharts(charts, results);
      }
    }
    return allKept(results);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

function machine(): object {
  const [processor] = cpus();
  return {
    date: new Date().toISOString(),
    processor: processor?.model,
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${process.arch}`,
    node: process.version,
  };
}
