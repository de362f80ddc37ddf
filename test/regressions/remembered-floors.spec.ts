import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';

const newCluster = clusterFactory();

describe('the highest floor of a key that a process received', () => {
  it('is not replaced by a lower one of another node: the next ballot is above all of them', async () => {
    const cluster = await newCluster();
    const { redlock, nodes } = await cluster.process();
    const [near, far] = [
      await cluster.process({ wallErrorMs: 1_800_000 }),
      await cluster.process({ wallErrorMs: 3_600_000 }),
    ];
    // Floors half an hour ahead on node 1, and a whole one on the others.
    await cluster.settle(near.redlock.withLock('a', () => undefined));
    cluster.servers[1]!.kill();
    const highest = await cluster.settle(far.redlock.withLock('a', ({ token }) => token.value));
    cluster.servers[1]!.restart({ keepData: true });
    await cluster.advance(100);
    cluster.occupy('a', [0, 1], 200);
    nodes[2]!.latencyMs = 20;
    const lock = await cluster.settle(redlock.acquire('a'));
    // All but the first, which asked when nothing was known.
    const [, ...ballots] = nodes[0]!.asked('acquire').map(({ request }) => request.ballot);
    expect(ballots.filter((ballot) => ballot <= highest)).toEqual([]);
    await cluster.settle(lock.release());
  });
});
