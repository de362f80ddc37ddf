import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { outcomesOf } from './support.ts';

const newCluster = clusterFactory();

describe('processes that try for one key at the same moment, each for one answer only', () => {
  it.each([
    [2, 2],
    [3, 3],
    [5, 3],
    [4, 5],
  ])('have one winner: %i processes, %i servers', async (processCount, serverCount) => {
    for (let round = 0; round < 20; round += 1) {
      const cluster = await newCluster(serverCount, round);
      const processes = [];
      for (let count = 0; count < processCount; count += 1) processes.push(await cluster.process());
      // Processes are each near another server: so their votes are split.
      for (const [index, { nodes }] of processes.entries())
        nodes[index % serverCount]!.latencyMs = 1;
      const outcomes = await outcomesOf(
        cluster,
        processes.map(({ redlock }) => redlock.acquire('cron', { wait: 0 })),
      );
      const codes = outcomes.map(({ code }) => code).sort();
      const busy = Array.from({ length: processCount - 1 }, () => 'LOCK_BUSY');
      expect([round, ...codes]).toEqual([round, ...busy, 'granted']);
    }
  });

  it('are busy after two tries where too few servers answer for a quorum to name the holder', async () => {
    const cluster = await newCluster(5);
    const [holder, other] = [await cluster.process(), await cluster.process()];
    cluster.servers[4]!.kill();
    await cluster.settle(holder!.redlock.acquire('held'));
    await cluster.advance(10);
    const [outcome] = await outcomesOf(cluster, [other!.redlock.acquire('held', { wait: 0 })]);
    expect(outcome!.code).toBe('LOCK_BUSY');
    // The node timeout that a caller is owed is 300 ms.
    expect(outcome!.tookMs).toBeLessThan(60);
  });
});
