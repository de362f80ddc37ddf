import type { Lock } from '../lib/core/lock.ts';
import { openRedlock } from './redlock-contestant.ts';

const BATCH = 100;

/** Bytes of heap that one held lock costs, with `count` of them held at once and kept extended. */
export async function measureHeldHeap(
  urls: readonly string[],
  count: number,
  progress: (share: number) => void,
): Promise<number> {
  const collect = globalThis.gc;
  if (!collect) throw new Error('Run node with --expose-gc.');
  // Long enough that no extension falls into the measurement.
  const redlock = await openRedlock(urls, { ttl: '5m' });
  const keys = Array.from({ length: count }, (_, index) => `held:${index}`);
  for (const key of keys.slice(0, BATCH)) await (await redlock.acquire(key)).release();
  const locks: Lock[] = [];
  const before = await settledHeap(collect);
  for (let start = 0; start < count; start += BATCH) {
    const batch = keys.slice(start, start + BATCH).map((key) => redlock.acquire(key));
    locks.push(...(await Promise.all(batch)));
    progress((start + BATCH) / count / 2);
  }
  const after = await settledHeap(collect);
  for (let start = 0; start < count; start += BATCH) {
    await Promise.all(locks.slice(start, start + BATCH).map((lock) => lock.release()));
    progress(0.5 + (start + BATCH) / count / 2);
  }
  await redlock.close();
  return (after - before) / count;
}

/** After everything that is only on its way has gone. */
async function settledHeap(collect: NodeJS.GCFunction): Promise<number> {
  for (let pass = 0; pass < 4; pass += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    // Without arguments: with options, node 20 leaves much of the garbage.
    collect();
  }
  return process.memoryUsage().heapUsed;
}
