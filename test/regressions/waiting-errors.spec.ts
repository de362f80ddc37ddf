import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { outcomesOf } from './support.ts';

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
