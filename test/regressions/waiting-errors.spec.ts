import { describe, expect, it, jest } from '@jest/globals';
import { Acquisition } from '../../lib/core/waiting/acquisition.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import type { LockProcess } from '../unit/core/support/cluster.ts';
import { outcomesOf, sleepIn } from './support.ts';

const newCluster = clusterFactory();
/** The default, from which a node timeout of 500 ms follows. */
const ttl = '10s';

describe('callers in line', () => {
  it.each([0, 5, 50, 300, 500, 700])(
    'all report a holder elsewhere as contention after a wait of %i ms',
    async (wait) => {
      const cluster = await newCluster();
      const { redlock } = await cluster.process({ ttl, latencyMs: 10 });
      cluster.occupy('a', [0, 1, 2], 60_000);
      const calls = Array.from({ length: 4 }, () => redlock.acquire('a', { wait }));
      const outcomes = await outcomesOf(cluster, calls);
      expect(outcomes.map(({ code }) => code)).toEqual(calls.map(() => 'LOCK_BUSY'));
    },
  );

  it('are granted a free key although their wait is shorter than a round trip', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl, latencyMs: 10 });
    const [outcome] = await outcomesOf(cluster, [redlock.acquire('a', { wait: 5 })]);
    expect(outcome!.code).toBe('granted');
  });

  it('report contention also when they arrive one after the other', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl, latencyMs: 10 });
    cluster.occupy('a', [0, 1, 2], 60_000);
    const calls = Array.from({ length: 120 }, async (_, index) => {
      await sleepIn(cluster, 7 * index);
      return redlock.acquire('a', { wait: 50 + (index % 7) * 10 });
    });
    const outcomes = await outcomesOf(cluster, calls);
    expect(outcomes.filter(({ code }) => code !== 'LOCK_BUSY').length).toBe(0);
  });

  it('ask for themselves in time when those ahead of them let other processes go first', async () => {
    const cluster = await newCluster();
    // Round trips so long that the turn of the others lasts for most of the node timeout of 100 ms.
    const options = { ttl: 1_000, latencyMs: 20 };
    const [one, other] = [await cluster.process(options), await cluster.process(options)];
    const use = async ({ redlock }: LockProcess, wait: number, holdMs: number) => {
      const lock = await redlock.acquire('a', { wait });
      await sleepIn(cluster, holdMs);
      await lock.release();
    };
    const outcomes = await outcomesOf(
      cluster,
      [one, other].flatMap((process) =>
        Array.from({ length: 60 }, async (_, index) => {
          await sleepIn(cluster, 31 * index);
          await use(process, [0, 3_000, 300][index % 3]!, 10);
        }),
      ),
    );
    expect(outcomes.filter(({ code }) => code === 'QUORUM_UNAVAILABLE')).toEqual([]);
  });

  it('ask for themselves in time after a lease that is known to be over, also behind one that pauses', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl: 500, latencyMs: 20 });
    const codes = new Set<string>();
    for (let round = 0; round < 40; round += 1) {
      const key = `key${round}`;
      cluster.occupy(key, [0, 1, 2], 200);
      const wait = round % 2 === 0 ? 1_000 : 225;
      const first = redlock.acquire(key, { wait }).catch(() => undefined);
      await cluster.advance(212);
      const late = redlock.withLock(key, () => undefined, { wait: 0 });
      codes.add((await outcomesOf(cluster, [late]))[0]!.code);
      await cluster.settle(Promise.resolve((await cluster.settle(first))?.release()));
    }
    expect([...codes]).toEqual(['granted']);
  });

  it('are busy when a node named a holder before the last ballot was cut off', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ latencyMs: 50 });
    cluster.occupy('a', [0], 60_000);
    const floor = cluster.environment.clock.wallMicros() + 10_000_000;
    for (const { state } of cluster.servers.slice(1))
      state.floors.set('lock:#floor:a', { floor, previous: 0 }, 60_000);
    const refused = cluster.failure(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(60);
    for (const server of cluster.servers.slice(1)) server.freeze();
    expect(await refused).toMatchObject({ code: 'LOCK_BUSY' });
  });

  it('are busy, not overloaded, when nodes named a holder before they waited for a slot', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ concurrentTries: 2, latencyMs: 20 });
    const keys = Array.from({ length: 60 }, (_, index) => `key${index}`);
    for (const key of keys) cluster.occupy(key, [0, 1, 2], 400);
    const calls = keys.map((key) => redlock.acquire(key, { wait: 1_000 }));
    await cluster.advance(390);
    for (const key of keys) cluster.occupy(key, [0, 1, 2], 60_000, 'next');
    const outcomes = await outcomesOf(cluster, calls);
    const tried = outcomes.filter(({ code }) => code === 'LOCK_BUSY');
    expect(tried.length).toBeGreaterThan(30);
    expect(new Set(outcomes.map(({ code }) => code))).toEqual(new Set(['LOCK_BUSY']));
  });

  it('with little patience are not all woken for each of them that gets the lock', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl: 10_000 });
    const callers = 200;
    const wake = jest.spyOn(Acquisition.prototype, 'wake');
    const calls = Array.from({ length: callers }, async () => {
      const lock = await redlock.acquire('a', { wait: 499 });
      await lock.release();
    });
    const outcomes = await outcomesOf(cluster, calls);
    const looks = wake.mock.calls.length;
    wake.mockRestore();
    const granted = outcomes.filter(({ code }) => code === 'granted').length;
    expect(granted).toBeGreaterThan(20);
    expect(looks / callers).toBeLessThan(6);
  });

  describe('behind a frozen majority', () => {
    async function outcomes(waits: readonly number[]) {
      const cluster = await newCluster();
      const { redlock } = await cluster.process({ ttl });
      for (const server of cluster.servers.slice(1)) server.freeze();
      return outcomesOf(
        cluster,
        waits.map((wait) => redlock.acquire('a', { wait })),
      );
    }

    it.each([
      ['one try each', [0, 0, 0, 0, 0]],
      ['waits that differ', [1_000, 1_050, 1_200, 300]],
    ])('all report the outage: %s', async (_, waits) => {
      const codes = (await outcomes(waits)).map(({ code }) => code);
      expect(codes).toEqual(waits.map(() => 'QUORUM_UNAVAILABLE'));
    });

    it('end with their own wait, or one node timeout when that is longer', async () => {
      const waits = [1_000, 1_050, 1_200, 300, 0, 0];
      const ended = await outcomes(waits);
      const lateMs = ended.map(({ tookMs }, index) => tookMs - Math.max(waits[index]!, 500));
      expect(Math.max(...lateMs)).toBeLessThanOrEqual(20);
    });
  });
});
