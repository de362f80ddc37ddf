import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { eventually } from '../support/eventually.ts';

/** The connections stay, but all that the replica remembers becomes what `source` remembers. */
async function copyData(replica: Redis, source: { readonly host: string; readonly port: number }) {
  await replica.call('REPLICAOF', source.host, String(source.port));
  await eventually(async () => {
    expect(await replica.info('replication')).toContain('master_link_status:up');
  });
  await replica.call('REPLICAOF', 'NO', 'ONE');
}

describe('a lock server that was made a replica of another one by mistake, and is a master again', () => {
  let cluster: RedisCluster;
  let admins: Redis[];

  beforeAll(async () => {
    cluster = await RedisCluster.start(3);
    admins = cluster.servers.map(({ url }) => new Redis(url));
    await Promise.all(admins.map((admin) => admin.config('SET', 'repl-diskless-sync-delay', '0')));
  });

  afterAll(async () => {
    for (const admin of admins) admin.disconnect();
    await cluster.stop();
  });

  it('does not vote again before a new join and its restart guard, for clients that stayed connected', async () => {
    const guarded = { restartGuard: true, maxTtl: '2s' } as const;
    const first = await cluster.process(guarded);
    const second = await cluster.process(guarded);
    const key = cluster.newKey();
    const held = await first.redlock.acquire(key, { wait: '10s' });
    // The guards end one after the other: a quorum may be granted before the last server votes, which joins in later.
    await eventually(async () => expect(await cluster.holders(key)).toBe(3));
    const [forgetful, without] = admins as [Redis, Redis];
    // The server forgets its vote, as if it had not been needed.
    await without.del(`lock:${key}`, `lock:#floor:${key}`);
    await copyData(forgetful, cluster.servers[1]!);
    expect(await forgetful.exists(`lock:${key}`)).toBe(0);
    expect(await second.redlock.tryAcquire(key).catch(() => null)).toBeNull();
    await sleep(700); // The first process extends what it holds meanwhile.
    expect(held.isHeld).toBe(true);
    await held.release();
    const next = await second.redlock.acquire(key, { wait: '10s' });
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await next.release();
  });
});
