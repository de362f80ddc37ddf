import { setMaxListeners } from 'node:events';
import { median } from './measure.ts';
import { openRedlock } from './redlock-contestant.ts';
import type { Result } from './report.ts';

// Costs of waiting, and what is left of keys that were used once. CPU time, not wall time: the servers and other
// programs on the machine don't count.

const COUNT = 100_000;
/** Fewer: Node.js looks through all listeners of a signal whenever one is added. */
const SHARED_COUNT = 10_000;
const ROUNDS = 3;
const BATCH = 200;
const WARM_UP = 10 * BATCH;
const ABORT_BAR = 2.5;
const LEFT_BAR_BYTES = 20;

type Wait = (signal: AbortSignal) => Promise<unknown>;
type Progress = (share: number) => void;

/** CPU time, ms, from the abort until all promises of `count` callers have ended. */
async function abortAll(wait: Wait, count: number, isShared: boolean): Promise<number> {
  const controllers = Array.from({ length: isShared ? 1 : count }, () => new AbortController());
  if (isShared) setMaxListeners(0, controllers[0]!.signal);
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

/** Callers that wait for one key and are aborted together, against as many plain promises behind signals like theirs. */
export async function abortCost(urls: readonly string[], progress: Progress): Promise<Result[]> {
  const redlock = await openRedlock(urls);
  const lock = await redlock.acquire('key');
  const lockWait: Wait = (signal) => redlock.acquire('key', { wait: '1h', signal });
  const results: Result[] = [];
  for (const isShared of [true, false]) {
    const count = isShared ? SHARED_COUNT : COUNT;
    const ratios: number[] = [];
    const micros: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const plain = await abortAll(plainWait, count, isShared);
      const took = await abortAll(lockWait, count, isShared);
      ratios.push(took / plain);
      micros.push((took * 1_000) / count);
      progress((round + 1 + (isShared ? 0 : ROUNDS)) / (2 * ROUNDS));
    }
    results.push({
      scenario: `${count} waiters aborted`,
      contestant: isShared ? 'one signal' : 'a signal each',
      value: median(ratios),
      unit: '×',
      micros: median(micros),
      // A listener of a signal that many share costs next to nothing, and would be no fair measure.
      ...(!isShared && { bar: ABORT_BAR }),
    });
  }
  await lock.release();
  await redlock.close();
  return results;
}

/** Remains of different keys that were each used once: heap, records, timers. */
export async function usedOnceCost(urls: readonly string[], progress: Progress): Promise<Result[]> {
  const collect = globalThis.gc;
  if (!collect) throw new Error('Run node with --expose-gc.');
  const redlock = await openRedlock(urls);
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
      progress(start / (WARM_UP + COUNT));
    }
  };
  await use(0, WARM_UP);
  const before = await settled();
  await use(WARM_UP, COUNT);
  const after = await settled();
  await redlock.close();
  progress(1);
  const counts = `${after.records} records, ${after.timers - before.timers} timers`;
  return [
    {
      scenario: `${COUNT} keys used once`,
      contestant: counts,
      value: counts === '0 records, 0 timers' ? (after.heap - before.heap) / COUNT : Number.NaN,
      unit: 'B',
      bar: LEFT_BAR_BYTES,
    },
  ];
}
