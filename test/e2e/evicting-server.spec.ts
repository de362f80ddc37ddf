import { Logger } from '@nestjs/common';
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import { eventListener } from '../../lib/nest/host/event-log.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const servers = useRedisServers(3, { own: true });
const openRedlock = useRedlocks();

/** Makes the first server one that evicts, with so many bytes beside what it needs for itself. */
async function evict(admin: Redis, bytes: number): Promise<void> {
  const used = /used_memory:(\d+)/.exec(await admin.info('memory'))![1];
  await admin.config('SET', 'maxmemory-policy', 'allkeys-random');
  await admin.config('SET', 'maxmemory', String(bytes === 0 ? 1 : Number(used) + bytes));
}

it.each([
  ['is always full', 3, 0],
  ['is nearly full', 3, 90_000],
  ['is the only one, and always full', 1, 0],
])('a server that evicts and %s floods neither log nor events', async (_, count, bytes) => {
  const events: LockEvent[] = [];
  const warnings: string[] = [];
  const logger = { log: () => undefined, warn: (line: string) => void warnings.push(line) };
  const onEvent = eventListener(logger as unknown as Logger, (event) => void events.push(event));
  const redlock = await openRedlock(redisNodes(servers.slice(0, count)), { onEvent });
  const admin = new Redis(servers[0]!.url);
  try {
    await evict(admin, bytes);
    let locked = 0;
    const refusals = new Set<unknown>();
    for (const untilMs = performance.now() + 2_500; performance.now() < untilMs;)
      await redlock
        .withLock('a', () => (locked += 1), { wait: 300 })
        .catch((error: { code?: string }) => refusals.add(error.code));
    expect([locked > 100, [...refusals]]).toEqual(
      count === 3 ? [true, []] : [false, ['QUORUM_UNAVAILABLE']],
    );
    expect(warnings.length).toBeLessThan(6);
    expect(events.filter(({ type }) => type.startsWith('node-')).length).toBeLessThan(20);
    await admin.config('SET', 'maxmemory', '0');
    await expect(redlock.withLock('a', () => 'locked', { wait: '8s' })).resolves.toBe('locked');
  } finally {
    await admin.config('SET', 'maxmemory', '0');
    admin.disconnect();
  }
});

it('a full server is joined where it knows its marker, and not where that has to be written', async () => {
  const { url } = servers[0]!;
  const admin = new Redis(url);
  const driver = await NodeDriver.open(new RedisLockNode(url));
  const join = () => driver.join(0, 'full:');
  try {
    await admin.config('SET', 'maxmemory-policy', 'noeviction');
    await join();
    await admin.config('SET', 'maxmemory', '1');
    expect(await join()).toMatchObject({ kind: 'joined' });
    await admin.del('full:#marker');
    const message = expect.stringContaining('OOM');
    expect(await join()).toMatchObject({ kind: 'failed', message });
    expect(await admin.exists('full:#marker')).toBe(0);
    await admin.config('SET', 'maxmemory', '0');
    expect(await join()).toMatchObject({ kind: 'joined' });
  } finally {
    await admin.config('SET', 'maxmemory', '0');
    admin.disconnect();
    await driver.node.close();
  }
});
