import type { Logger } from '@nestjs/common';
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import { eventListener } from '../../lib/locks/event-log.ts';
import { createRedisNode } from '../support/clients.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const servers = useRedisServers(3, { own: true });
const openRedlock = useRedlocks();

/** Makes the first server one that evicts, and is full whatever it evicts. */
async function evict(admin: Redis): Promise<void> {
  await admin.config('SET', 'maxmemory-policy', 'allkeys-random');
  await admin.config('SET', 'maxmemory', '1');
}

it.each([
  ['is one of three', 3, 2_000],
  ['is the only one', 1, 8],
])('a full server that evicts and %s floods neither log nor events', async (_, count, calls) => {
  const events: LockEvent[] = [];
  const warnings: string[] = [];
  const warn = (line: string) => void warnings.push(line);
  const logger = { log: () => undefined, warn, error: warn };
  const onEvent = eventListener(logger as unknown as Logger, (event) => void events.push(event));
  const redlock = await openRedlock(redisNodes(servers.slice(0, count)), { onEvent });
  const admin = new Redis(servers[0]!.url);
  try {
    await evict(admin);
    let locked = 0;
    const refusals = new Set<unknown>();
    for (let call = 0; call < calls; call += 1)
      await redlock
        // A caller does not give up where two servers can grant, however long one of them pauses.
        .withLock('a', () => (locked += 1), { wait: count === 3 ? '1m' : 300 })
        .catch((error: { code?: string }) => refusals.add(error.code));
    expect([locked, [...refusals]]).toEqual(
      count === 3 ? [calls, []] : [0, ['QUORUM_UNAVAILABLE']],
    );
    // Lines about the full server only: what is said of the others, and of slow answers, depends on the machine.
    const address = `${servers[0]!.host}:${servers[0]!.port}`;
    expect(warnings.filter((line) => line.startsWith(`Node ${address} `)).length).toBeLessThan(6);
    const ofNode = events.filter((event) => 'address' in event && event.address === address);
    expect(ofNode.length).toBeLessThan(20);
    await admin.config('SET', 'maxmemory', '0');
    await expect(redlock.withLock('a', () => 'locked', { wait: '1m' })).resolves.toBe('locked');
  } finally {
    await admin.config('SET', 'maxmemory', '0');
    admin.disconnect();
  }
});

it('a full server is joined where it knows its marker, and not where that has to be written', async () => {
  const { url } = servers[0]!;
  const admin = new Redis(url);
  const driver = await NodeDriver.open(createRedisNode(url));
  const join = () => driver.join(0, { markerName: 'full:#marker' });
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
