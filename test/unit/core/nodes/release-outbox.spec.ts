import { describe, expect, it } from '@jest/globals';
import { processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

describe('a release to a node of a cluster', () => {
  const newProcess = processFactory();

  /** An acquire gets stuck on its way, and its connection ends for a while; call the result to let it arrive. */
  async function strandAcquire(cluster: Cluster, { redlock, nodes }: LockProcess) {
    const [node] = nodes;
    const [server] = cluster.servers;
    const known = node!.asked('acquire').length;
    node!.failNext('lose-request', { command: 'acquire' });
    const lost = rejection(redlock.acquire('lost', { wait: 0 }));
    await cluster.advance(10);
    server!.kill();
    await cluster.settle(lost);
    server!.restart({ keepData: true });
    await cluster.advance(50);
    return () => void node!.server.acquire(node!.asked('acquire')[known]!.request);
  }

  it('goes over the next connection when this one closed, without an answer or before it was sent', async () => {
    const { cluster, redlock, node } = await newProcess({}, 1);
    for (const whenSent of [true, false]) {
      const lock = await cluster.settle(redlock.acquire('a'));
      if (whenSent) node.failNext('lose-request', { command: 'release' });
      else node.disconnect();
      const released = lock.release();
      await cluster.advance(1);
      if (whenSent) node.disconnect();
      await cluster.settle(released);
      expect(cluster.holders('a')).toBe(1);
      await cluster.advance(50);
      expect(cluster.holders('a')).toBe(0);
    }
  });

  it('leaves no orphan of an acquire that arrives after it, on another connection', async () => {
    const process = await newProcess({ ttl: 30_000, nodeTimeout: 300 }, 1);
    const { cluster } = process;
    const arrive = await strandAcquire(cluster, process);
    arrive();
    expect(cluster.holders('lost')).toBe(1);
    await cluster.advance(300);
    expect(cluster.holders('lost')).toBe(0);
  });
});
