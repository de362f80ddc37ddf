import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { eventsOf } from './support.ts';

const newCluster = clusterFactory();

describe('a join that fails for good', () => {
  it('is repeated once a second or so, and soon after the node recovered', async () => {
    const cluster = await newCluster();
    const { nodes, redlock, events } = await cluster.process({ open: false });
    const [failing] = nodes;
    failing!.failNext(
      { error: 'READONLY You can not write against a read only replica.' },
      { command: 'join', times: Number.POSITIVE_INFINITY },
    );
    redlock.open();
    await cluster.advance(60_000);
    // Full jitter up to a second: every half second on average.
    expect(failing!.asked('join').length).toBeLessThan(180);
    expect(failing!.asked('join').length).toBeGreaterThan(50);
    failing!.clearFaults();
    await cluster.advance(1_200);
    expect(eventsOf(events, 'node-joined')).toHaveLength(3);
  });

  it('starts with short pauses again after a node has voted', async () => {
    const cluster = await newCluster();
    const { nodes, redlock } = await cluster.process({ open: false });
    const [flapping] = nodes;
    const fail = () =>
      flapping!.failNext(
        { error: 'LOADING' },
        { command: 'join', times: Number.POSITIVE_INFINITY },
      );
    const joinsWithin = async (ms: number) => {
      const before = flapping!.asked('join').length;
      await cluster.advance(ms);
      return flapping!.asked('join').length - before;
    };
    fail();
    redlock.open();
    await cluster.advance(30_000);
    flapping!.clearFaults();
    await cluster.advance(2_000);
    await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
    fail();
    flapping!.disconnect();
    expect(await joinsWithin(1_000)).toBeGreaterThanOrEqual(3);
    await cluster.advance(10_000);
    expect(await joinsWithin(20_000)).toBeLessThan(70);
  });

  it('loads no script into a real server before a join was answered', async () => {
    const cluster = await RedisCluster.start(1);
    const events: LockEvent[] = [];
    const node = new RedisLockNode(cluster.servers[0]!.url);
    const redlock = new Redlock([node], { onEvent: (event) => events.push(event) });
    try {
      await cluster.command('ACL', 'SETUSER', 'default', '-set');
      redlock.open();
      await sleep(3_000);
      const [[loads], [joins]] = [
        await cluster.calls('script\\|load'),
        await cluster.calls('eval'),
      ];
      expect({ loads, fewJoins: joins! > 2 && joins! < 25 }).toEqual({ loads: 0, fewJoins: true });
      await cluster.command('ACL', 'SETUSER', 'default', '+set');
      await eventually(() => expect(eventsOf(events, 'node-joined')).toHaveLength(1));
      await (await redlock.acquire('a', { wait: '5s' })).release();
      expect((await cluster.calls('script\\|load'))[0]).toBeLessThan(10);
    } finally {
      await redlock.close();
      await cluster.stop();
    }
  });
});
