import { setMaxListeners } from 'node:events';
import { parseArgs } from 'node:util';
import { startRedisServers } from '../test/support/redis-servers/index.ts';
import { median } from './measure.ts';
import { openRedlock } from './redlock-contestant.ts';
import { allKept, table } from './report.ts';
import type { Result } from './report.ts';

// What waiting costs, and what is left of keys that were used once. CPU time, not wall time: the servers and other
// programs on the machine don't count.

const ABORT_BAR = 2.5;
const LEFT_BAR_BYTES = 20;
const BATCH = 200;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', short: 'h', default: false },
    check: { type: 'boolean', default: false },
    count: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '3' },
  },
});
const count = Number(values.count);

const HELP = `node --expose-gc --import ./test/support/typescript-loader.mjs bench/waiting-costs.ts

Starts three Redis servers and measures
- the CPU time of <count> callers that wait for one key and are aborted together, against as many plain promises
  behind signals like theirs: one signal for all, and one for each;
- what <count> different keys leave behind that were each used once: heap, records, timers.

  --count <n>    callers and keys (default 100000)
  --rounds <n>   of which the median counts (default 3)
  --check        fails when a bar is missed
  -h, --help     this text
`;

type Wait = (signal: AbortSignal) => Promise<unknown>;

/** CPU time, ms, from the abort until all promises of `count` callers have ended. */
async function abortAll(wait: Wait, shared: boolean): Promise<number> {
  const controllers = Array.from({ length: shared ? 1 : count }, () => new AbortController());
  if (shared) setMaxListeners(0, controllers[0]!.signal);
  const ended = Array.from({ length: count }, (_, index) =>
    wait(controllers[index % controllers.length]!.signal).catch(() => undefined),
  );
  await new Promise((resolve) => setTimeout(resolve, 200));
  const before = process.cpuUsage();
  for (const controller of controllers) controller.abort('aborted');
  await Promise.all(ended);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const plainWait: Wait = (signal) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

async function aborted(urls: readonly string[]): Promise<Result[]> {
  const redlock = await openRedlock(urls);
  const lock = await redlock.acquire('key');
  const lockWait: Wait = (signal) => redlock.acquire('key', { wait: '1h', signal });
  const results: Result[] = [];
  for (const shared of [true, false]) {
    const ratios: number[] = [];
    const micros: number[] = [];
    for (let round = 0; round < Number(values.rounds); round += 1) {
      const plain = await abortAll(plainWait, shared);
      const took = await abortAll(lockWait, shared);
      ratios.push(took / plain);
      micros.push((took * 1_000) / count);
    }
    results.push({
      scenario: `${count} waiters aborted`,
      contestant: shared ? 'one signal' : 'a signal each',
      value: median(ratios),
      unit: '×',
      micros: median(micros),
      // A listener of a signal that many share costs next to nothing, and would be no fair measure.
      ...(!shared && { bar: ABORT_BAR }),
    });
  }
  await lock.release();
  await redlock.close();
  return results;
}

async function usedOnce(urls: readonly string[]): Promise<Result[]> {
  const collect = globalThis.gc;
  if (!collect) throw new Error('Run node with --expose-gc; see --help.');
  const settled = async () => {
    // A subscription outlives its last waiter by a second.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    for (let pass = 0; pass < 4; pass += 1) {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    return { heap: process.memoryUsage().heapUsed, records: redlock.keyCount, timers };
  };
  const use = async (first: number, keys: number) => {
    for (let start = first; start < first + keys; start += BATCH) {
      const acquired = Array.from({ length: BATCH }, (_, index) =>
        redlock.acquire(`key:${start + index}`),
      );
      await Promise.all((await Promise.all(acquired)).map((lock) => lock.release()));
    }
  };
  const redlock = await openRedlock(urls);
  await use(0, 10 * BATCH);
  const before = await settled();
  await use(10 * BATCH, count);
  const after = await settled();
  await redlock.close();
  const counts = `${after.records} records, ${after.timers - before.timers} timers`;
  return [
    {
      scenario: `${count} keys used once`,
      contestant: counts,
      value: counts === '0 records, 0 timers' ? (after.heap - before.heap) / count : Number.NaN,
      unit: 'B',
      bar: LEFT_BAR_BYTES,
    },
  ];
}

async function main(): Promise<void> {
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const servers = await startRedisServers(3);
  try {
    const urls = servers.map(({ url }) => url);
    const results = [...(await aborted(urls)), ...(await usedOnce(urls))];
    process.stdout.write(`\n${table(results)}\n`);
    if (values.check && !allKept(results)) process.exitCode = 1;
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

await main();
