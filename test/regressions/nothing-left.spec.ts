import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { outcomesOf } from './support.ts';

const newCluster = clusterFactory();
const BATCH = 200;
const BATCHES = 20;
/** Lost locks end before. */
const END_MS = 1_500;

describe('4,000 keys that were each used once', () => {
  it('leave no record, timer or listener, however their use ended', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 1_000 });
    const { redlock } = process;
    const signals: AbortSignal[] = [];
    let mostRecords = 0;
    const codes = new Map<string, number>();
    for (let batch = 0; batch < BATCHES; batch += 1) {
      const calls = Array.from({ length: BATCH }, async (_, index) => {
        const keys = [`${batch}/${index}`, `${batch}/${index}/second`].slice(index % 2);
        const way = Math.floor(index / 2) % 4;
        const { signal, ...abort } = withAbort();
        signals.push(signal);
        if (way > 1) for (const key of keys) cluster.occupy(key, [0, 1, 2], 60_000);
        if (way === 3) cluster.environment.timers.set(abort.now, 20);
        const lock = await redlock.acquire(keys, { wait: 50, signal, extend: way !== 1 });
        // The others are lost when their validity ends.
        if (way === 0) await lock.release();
        return lock;
      });
      mostRecords = Math.max(mostRecords, redlock.keyCount);
      for (const { code } of await outcomesOf(cluster, calls))
        codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    expect(Object.fromEntries(codes)).toEqual({
      granted: (BATCH * BATCHES) / 2,
      LOCK_BUSY: (BATCH * BATCHES) / 4,
      aborted: (BATCH * BATCHES) / 4,
    });
    expect(mostRecords).toBeGreaterThanOrEqual(BATCH);
    await cluster.advance(END_MS);
    expect({
      records: redlock.keyCount,
      timers: process.liveTimers,
      listeners: signals.filter((signal) => getEventListeners(signal, 'abort').length > 0).length,
    }).toEqual({ records: 0, timers: 0, listeners: 0 });
  });
});

function withAbort() {
  const controller = new AbortController();
  return { signal: controller.signal, now: () => controller.abort('aborted') };
}
