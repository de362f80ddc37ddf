import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { LockNode } from '../../lib/core/nodes/lock-node.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { CriticalSection } from '../nest/support/critical-section.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const PERMITS = 4;
const CALLS = 20;

const openRedlock = useRedlocks();
const servers = useRedisServers(3);
const database = usePostgres((pool) => pool.query(postgresNode(pool).ddl()));

/** Where locks are, and how many processes wait there for one. */
interface Home {
  readonly nodes: () => LockNode[];
  readonly waiters: (lock: string) => Promise<number>;
}

const HOMES: Readonly<Record<string, Home>> = {
  'three Redis servers': {
    nodes: () => redisNodes(servers),
    waiters: async (lock) => {
      const client = new Redis(servers[0]!.url);
      const count = await client.zcard(`${lock}#queue`);
      client.disconnect();
      return count;
    },
  },
  PostgreSQL: {
    nodes: () => {
      const listen = () => new pg.Client({ connectionString: database.url });
      return [postgresNode(database.pool, { listen }) as LockNode];
    },
    waiters: async (lock) => {
      const sql =
        'SELECT FROM redlock_waiter WHERE resource = $1 AND waits_until > clock_timestamp()';
      return (await database.pool.query(sql, [lock])).rows.length;
    },
  },
};

describe.each(Object.entries(HOMES))('permits on %s', (_, home) => {
  /** Services as in several processes, each with connections of its own. */
  async function openServices(keyPrefix: string): Promise<Redlock[]> {
    const services: Redlock[] = [];
    for (let count = 0; count < 3; count += 1)
      services.push(await openRedlock(home.nodes(), { keyPrefix, wait: '1m' }));
    return services;
  }

  it('let so many calls of all processes in at once, each of which comes to its turn', async () => {
    const services = await openServices('permits-busy:');
    const section = new CriticalSection();
    const tokens = new Map<number | undefined, number[]>();
    const calls = services.flatMap((redlock) =>
      Array.from({ length: CALLS }, () =>
        redlock.withLock(
          'api',
          async ({ slot, token }) => {
            tokens.set(slot, [...(tokens.get(slot) ?? []), token.value]);
            await section.visit();
          },
          { permits: PERMITS },
        ),
      ),
    );
    await Promise.all(calls);
    expect([section.entered, section.mostInside]).toEqual([3 * CALLS, PERMITS]);
    for (const [slot, values] of tokens)
      expect([slot, values]).toEqual([slot, values.toSorted((one, other) => one - other)]);
  });

  it('give a slot to who waits as soon as it is free, whichever it is', async () => {
    const [holder, waiting] = (await openServices('permits-turn:')) as [Redlock, Redlock];
    const options = { permits: PERMITS, wait: 0 };
    const locks = [];
    for (let taken = 0; taken < PERMITS; taken += 1)
      locks.push(await holder.acquire('api', options));
    expect(await waiting.tryAcquire('api', { permits: PERMITS })).toBeNull();
    for (const lock of locks) {
      const granted = waiting.acquire('api', { permits: PERMITS });
      await eventually(async () =>
        expect(await home.waiters(`permits-turn:${lock.keys[0]}`)).toBe(1),
      );
      await lock.release();
      expect((await granted).slot).toBe(lock.slot);
    }
  });
});
