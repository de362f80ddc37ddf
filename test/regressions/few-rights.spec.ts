import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Redlock } from '../../lib/core/redlock.ts';
import { requiredAclRules } from '../../lib/redis/preflight.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const RULES = requiredAclRules('lock:');
/** Leases and waits that outlast a test. */
const PATIENT = { ttl: '1h', wait: '1h' } as const;
const without = (...rights: string[]) =>
  `user few on >password ${RULES} ${rights.map((right) => `-${right}`).join(' ')}`;

describe.each([
  ['stand in line', ['zadd']],
  ['look at a line', ['zcard']],
  ['subscribe', ['subscribe']],
])('a process whose user may not %s', (_, rights) => {
  const servers = useRedisServers(1, {
    acl: ['user default on nopass ~* &* +@all', without(...rights)],
  });
  const open = useRedlocks();

  it('asks again by itself, and has a key long before the lease of its last holder would have ended', async () => {
    const holder = await open(redisNodes(servers), PATIENT);
    const few = await open(redisNodes(asFew(servers)), PATIENT);
    const held = await holder.acquire('a');
    const waiting = few.acquire('a');
    // The server writes down what it refuses.
    const admin = new Redis(servers[0]!.url);
    const refusals = () => admin.call('ACL', 'LOG') as Promise<unknown[]>;
    await eventually(async () => expect(await refusals()).not.toEqual([])).finally(() =>
      admin.disconnect(),
    );
    await held.release();
    await (await waiting).release();
  });
});

describe('a process whose user may not publish', () => {
  const servers = useRedisServers(1, {
    acl: ['user default on nopass ~* &* +@all', without('publish')],
  });
  const open = useRedlocks();

  it('lets a process that waits have its turn, which that one finds when it asks again', async () => {
    const full = await open(redisNodes(servers), PATIENT);
    const few = await open(redisNodes(asFew(servers)), PATIENT);
    let isOver = false;
    const loops = Array.from({ length: 2 }, () => loop(few, () => isOver));
    for (let visit = 0; visit < 4; visit += 1)
      await expect(full.withLock('a', () => 'visited')).resolves.toBe('visited');
    isOver = true;
    await Promise.all(loops);
  });
});

const asFew = (servers: readonly { readonly url: string }[]) =>
  servers.map(({ url }) => ({ url: url.replace('//', '//few:password@') }));

async function loop(redlock: Redlock, isOver: () => boolean): Promise<void> {
  while (!isOver())
    await redlock.withLock('a', () => new Promise((resolve) => setTimeout(resolve, 5)));
}
