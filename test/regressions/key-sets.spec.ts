import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { outcomeOf, outcomesOf, sleepIn } from './support.ts';

const newCluster = clusterFactory();

describe('a set of keys that waits for one of them', () => {
  it.each(['section', 'handle'])(
    'takes no free key from the %s that holds that one: keys taken in sorted order never deadlock',
    async (kind) => {
      const cluster = await newCluster();
      const { redlock } = await cluster.process();
      let start!: () => void;
      const started = new Promise<void>((resolve) => (start = resolve));
      // Asked for by another call than the one that holds the key.
      const set = started.then(() => redlock.acquire(['c', 'd'], { wait: '5s' }));
      set.catch(() => undefined);
      const takeSecond = async () => {
        start();
        await sleepIn(cluster, 50);
        return outcomeOf(redlock.acquire('d', { wait: 1_000 }), () => cluster.nowMs);
      };
      const taken =
        kind === 'section'
          ? redlock.withLock('c', takeSecond)
          : redlock.acquire('c').then(takeSecond);
      const { code, tookMs } = await cluster.settle(taken);
      expect([code, tookMs < 50]).toEqual(['granted', true]);
    },
  );

  it('leaves the others to callers of this process when another process holds that one', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    cluster.occupy('f', [0, 1, 2], 10_000);
    const set = redlock.acquire(['e', 'f'], { wait: '5s' });
    set.catch(() => undefined);
    await cluster.advance(100);
    const [outcome] = await outcomesOf(cluster, [redlock.acquire('e', { wait: 1_000 })]);
    expect(outcome).toMatchObject({ code: 'granted', error: undefined });
    expect(outcome!.tookMs).toBeLessThan(50);
  });
});

const WAIT_MS = 2_000;

describe('a set of keys', () => {
  it('keeps no free key for long where another one changed hands before, and is held for long now', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ latencyMs: 1 });
    const [first, before] = await cluster.settle(
      Promise.all([redlock.acquire('free'), redlock.acquire('long')]),
    );
    const set = redlock.acquire(['free', 'long'], { wait: '1m' });
    set.catch(() => undefined);
    const after = redlock.acquire('long');
    await cluster.settle(before.release());
    const long = await cluster.settle(after);
    await cluster.settle(first.release());
    const waits: number[] = [];
    for (let count = 0; count < 20; count += 1) {
      await cluster.advance(100);
      const startedAtMs = cluster.nowMs;
      const lock = await cluster.settle(redlock.acquire('free', { wait: WAIT_MS }));
      waits.push(cluster.nowMs - startedAtMs);
      await cluster.advance(5);
      await cluster.settle(lock.release());
    }
    await cluster.settle(long.release());
    expect(Math.max(...waits)).toBeLessThan(100);
  });
});
