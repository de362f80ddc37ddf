import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { StaleTokenError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { Redlock } from '../../../lib/core/redlock.ts';
import { redisFence, type RedisFence } from '../../../lib/fencing/index.ts';
import { useRedisServers } from '../../support/redis-servers/use-redis-servers.ts';
import { useRedisCluster, type RedisCluster } from './support/redis-cluster.ts';

// What every lock library is asked about first, told from the first lock to the last write. No step depends on how fast the
// machine is: each waits for what happened, and what must not happen is looked at in the moment in which it would matter.

const SAFE = { ttl: '1s', restartGuard: true, wait: '90s' } as const;

interface Story {
  readonly name: string;
  readonly strike: (cluster: RedisCluster) => Promise<unknown>;
  /** What callers and the holder are told meanwhile. */
  readonly meanwhile: (first: Redlock, held: Lock) => Promise<void>;
  readonly repair: (cluster: RedisCluster) => Promise<unknown>;
}

const majorityOf = ({ servers, majority }: RedisCluster) => servers.slice(0, majority);

/** Without a quorum a new call is told of the outage, and the holder of its loss. */
async function outage(first: Redlock, held: Lock): Promise<void> {
  const refusal = first.acquire('another key', { wait: 0 });
  await expect(refusal).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
  if (!held.signal.aborted)
    await new Promise((resolve) => held.signal.addEventListener('abort', resolve));
  expect(held.signal.reason).toMatchObject({ code: 'LOCK_LOST', keys: held.keys });
}

const STORIES: readonly Story[] = [
  {
    name: 'a majority of the servers is killed and comes back empty',
    strike: (cluster) => Promise.all(majorityOf(cluster).map((server) => server.kill())),
    meanwhile: outage,
    repair: (cluster) => Promise.all(majorityOf(cluster).map((server) => server.restart())),
  },
  {
    name: 'a majority of the servers is frozen and goes on',
    strike: (cluster) => Promise.all(majorityOf(cluster).map((server) => server.freeze())),
    meanwhile: outage,
    repair: (cluster) => Promise.all(majorityOf(cluster).map((server) => server.resume())),
  },
  {
    name: 'FLUSHALL on all servers',
    strike: (cluster) => cluster.command('FLUSHALL'),
    // The servers answer, so this is no outage.
    meanwhile: async () => undefined,
    repair: async () => undefined,
  },
];

describe.each(STORIES)('$name', ({ strike, meanwhile, repair }) => {
  let client: Redis;
  let fence: RedisFence;
  // Before the hooks that stop the server: a client that is closed after its server waits for it.
  afterAll(() => client.quit());
  const cluster = useRedisCluster(3);
  const stores = useRedisServers(1);
  beforeAll(() => {
    client = new Redis(stores[0]!.url);
    fence = redisFence(client);
  });

  it('the next holder comes after the first one, with a larger token, and the late write of the first is refused', async () => {
    const { redlock: first } = await cluster.process(SAFE);
    const { redlock: second } = await cluster.process(SAFE);
    const key = cluster.newKey();
    const record = `{${key}}:customer`;
    const held = await first.acquire(key);
    await fence.write(held.token, [['SET', record, 'first']]);

    await strike(cluster);
    const waiting = second.acquire(key).then((lock) => {
      // Both clocks are that of this process, so this is exact however late the answer comes.
      expect(held.isHeld).toBe(false);
      return lock;
    });
    waiting.catch(() => undefined);
    await meanwhile(first, held);
    await repair(cluster);
    const next = await waiting;
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await fence.write(next.token, [['SET', record, 'second']]);
    const late = fence.write(held.token, [['SET', record, 'first again']]);
    await expect(late).rejects.toBeInstanceOf(StaleTokenError);
    expect(await client.get(record)).toBe('second');
    await next.release();
    await held.release();
  });
});
