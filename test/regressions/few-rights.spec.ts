import { describe, expect, it } from '@jest/globals';
import type { Redlock } from '../../lib/core/redlock.ts';
import { requiredAclRules } from '../../lib/redis/preflight.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const RULES = requiredAclRules('lock:');
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
    const holder = await open(redisNodes(servers), { ttl: '60s' });
    const few = await open(redisNodes(asFew(servers)), { ttl: '60s' });
    const held = await holder.acquire('a');
    const waiting = few.acquire('a', { wait: '50s' });
    await new Promise((resolve) => setTimeout(resolve, 300));
    await held.release();
    const releasedAtMs = performance.now();
    await (await waiting).release();
    expect(performance.now() - releasedAtMs).toBeLessThan(20_000);
  });
});

describe('a process whose user may not publish', () => {
  const servers = useRedisServers(1, {
    acl: ['user default on nopass ~* &* +@all', without('publish')],
  });
  const open = useRedlocks();

  it('lets a process that waits have its turn, which that one finds when it asks again', async () => {
    const full = await open(redisNodes(servers));
    const few = await open(redisNodes(asFew(servers)));
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
    await redlock.withLock('a', () => new Promise((resolve) => setTimeout(resolve, 5)), {
      wait: '20s',
    });
}
