import { cpus, totalmem } from 'node:os';
import { writeFileSync } from 'node:fs';
import { startRedisServers } from '../test/support/redis-servers/index.ts';
import type { RedisServer } from '../test/support/redis-servers/redis-server.ts';
import type { Arguments, Scenario } from './arguments.ts';
import { drawCharts } from './charts.ts';
import { contention } from './contention.ts';
import { decoratorCost } from './decorator-cost.ts';
import { frozenNodes, slowNode } from './faulty-nodes.ts';
import { fenceCost } from './fence-cost.ts';
import { extensionCosts, heapOfLocks } from './held-locks.ts';
import { manyCallers } from './many-callers.ts';
import { acquireAndRelease, emptySection } from './one-caller.ts';
import { peersHint } from './peers.ts';
import { progressOf } from './progress.ts';
import { allKept, tables, type Result } from './report.ts';
import { startUp } from './start-up.ts';
import { abortCost, usedOnceCost } from './waiting-costs.ts';

const NODES = [1, 3, 5, 7];
const CALLERS = [1, 8, 64, 512, 4_096];
const CONTENTION = [
  { callers: 16, processes: 1, rounds: 3 },
  { callers: 128, processes: 1, rounds: 3 },
  { callers: 1_000, processes: 1, rounds: 1 },
  { callers: 128, processes: 4, rounds: 3 },
  { callers: 1_000, processes: 4, rounds: 1 },
];

type Run = () => Promise<Result[]>;

/** What each scenario measures; less of it without `full`. */
function scenariosOn(servers: readonly RedisServer[], full: boolean): Record<Scenario, Run> {
  const urls = servers.map(({ url }) => url);
  const on = (nodes: number) => urls.slice(0, nodes);
  const rounds = (few: number, many: number, cycles: number) => ({
    rounds: full ? many : few,
    warmUpRounds: full ? 10 : 5,
    cycles,
  });
  const each = async <Item>(
    items: readonly Item[],
    measure: (item: Item) => Promise<Result[]>,
  ): Promise<Result[]> => {
    const results: Result[] = [];
    for (const item of items) results.push(...(await measure(item)));
    return results;
  };
  const callersOn = (nodes: number) =>
    each(full ? CALLERS : [64], (callers) => {
      const plan = {
        callers,
        rounds: full ? 5 : 4,
        warmUpRounds: 1,
        locks: Math.max(1_500, callers),
      };
      return manyCallers(on(nodes), plan, progressOf);
    });
  const contentionOn = (nodes: number) =>
    each(full ? CONTENTION : [{ callers: 128, processes: 1, rounds: 1 }], (plan) =>
      contention(on(nodes), plan, progressOf),
    );
  return {
    'N=1': () => acquireAndRelease(on(1), rounds(20, 60, 100), progressOf),
    'N=5': () => acquireAndRelease(on(5), rounds(20, 60, 40), progressOf),
    sections: () =>
      each([1, 5], (nodes) => emptySection(on(nodes), rounds(15, 60, 50), progressOf)),
    callers: () => each(full ? NODES : [1, 5], callersOn),
    contention: () => each(full ? [1, 5] : [5], contentionOn),
    frozen: () => frozenNodes(servers, rounds(20, 20, 40), progressOf),
    slow: () => slowNode(on(5), { rounds: 5, warmUpRounds: 1, cycles: 20 }, progressOf),
    held: () => each([1_000, 10_000], (count) => extensionCosts(on(5), count, progressOf)),
    heap: () => heapOfLocks(on(5), 10_000, progressOf),
    'start-up': () => startUp(on(5), progressOf),
    abort: () => abortCost(on(3), progressOf('waiters aborted')),
    'used-once': () => usedOnceCost(on(3), progressOf('keys used once')),
    decorator: () => decoratorCost(progressOf, { rounds: 200, warmUpRounds: 40, cycles: 400 }),
    fence: () => fenceCost(progressOf, { rounds: 100, warmUpRounds: 10, cycles: 5 }),
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
      const found = await runs[name]();
      process.stdout.write(`\n${tables(found)}\n\n`);
      results.push(...found);
      // After each, because the whole may take half an hour.
      if (json !== undefined)
        writeFileSync(json, `${JSON.stringify({ machine: machine(), results }, null, 2)}\n`);
      if (charts !== undefined) drawCharts(charts, results);
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
