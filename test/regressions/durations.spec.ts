import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Duration } from '../../lib/core/options/duration.ts';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { NodeDriver } from '../support/node-driver.ts';

/** As the arithmetic of floating point has them: 16100.000000000002, 2009.9999999999998, … */
const FRACTIONAL: Duration[] = ['16.1s', '2.01s', '32.3s', '4.1m', 1_500.5, 10_000 / 3];

describe('a duration that is no whole number of milliseconds', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start(1);
  });
  afterAll(() => cluster.stop());

  it.each(FRACTIONAL)('locks for %s on a real server, as ttl, maxTtl and minHold', async (ttl) => {
    const { redlock } = await cluster.process({ ttl, maxTtl: '5m', wait: 0 });
    const key = cluster.newKey();
    const lock = await redlock.acquire(key);
    await lock.extend();
    const [remainingMs] = await cluster.command('PTTL', `lock:${key}`);
    expect(remainingMs).toBeGreaterThan(1_000);
    await lock.release();
    const other = await cluster.process({ maxTtl: ttl, ttl: 1_000, minHold: 1.5 });
    await (await other.redlock.acquire(cluster.newKey(), { minHold: 100 / 3 })).release();
  });

  it('is refused by a node in memory, as a server refuses it', async () => {
    const names = new NodeNames('lock:', ['a']);
    for (const node of [...createMemoryNodes(1), new RedisLockNode(cluster.servers[0]!.url)]) {
      const driver = await NodeDriver.open(node);
      await driver.join();
      const reply = await driver.acquire(names, 'holder', Date.now() * 1_000, 1_500.5);
      const message = expect.stringContaining('ERR value is not an integer or out of range');
      expect(reply).toMatchObject({ kind: 'failed', nothingWritten: false, message });
      await node.close();
    }
  });
});
