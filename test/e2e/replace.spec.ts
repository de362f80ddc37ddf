import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../lib/core/lock.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const CALLS = 100;
const SERVICES = 5;

describe("a hundred calls with onBusy: 'replace' for one key, in several services", () => {
  const servers = useRedisServers(3);
  const database = usePostgres(async (pool) => {
    await pool.query(postgresFence(pool).ddl());
    await pool.query(postgresNode(pool).ddl());
    await pool.query('CREATE TABLE document (key text PRIMARY KEY, call integer, token bigint)');
    await pool.query('CREATE TABLE written (id serial, key text, call integer, token bigint)');
  });
  const open = useRedlocks();

  const homes = {
    'on three Redis servers': () => redisNodes(servers),
    'in PostgreSQL': () => [postgresNode(database.pool)],
  };

  it.each(Object.entries(homes))(
    '%s: what the newest wrote stays, and no write of an earlier one lands after it',
    async (key, nodes) => {
      const services: Redlock[] = [];
      while (services.length < SERVICES) services.push(await open(nodes(), { ttl: 2_000 }));
      const fence = postgresFence(database.pool);
      await database.pool.query('INSERT INTO document VALUES ($1, -1, 0)', [key]);
      const write = ({ token }: Lock, call: number) =>
        fence.transaction(token, async (tx) => {
          const values = [key, call, token.value];
          await tx.query('UPDATE document SET call = $2, token = $3 WHERE key = $1', values);
          await tx.query('INSERT INTO written (key, call, token) VALUES ($1, $2, $3)', values);
        });
      let newestIsDone: () => void = () => undefined;
      const afterTheNewest = new Promise<void>((resolve) => (newestIsDone = resolve));
      const late: Promise<unknown>[] = [];
      const replaced = new Set<number>();
      /** Every second one ignores its signal, and writes once more when the newest is done. */
      const work = (call: number) => async (lock: Lock) => {
        const isOver = new Promise<void>((resolve) => {
          lock.signal.addEventListener('abort', () => resolve(void replaced.add(call)));
        });
        await write(lock, call);
        late.push(afterTheNewest.then(() => write(lock, call)));
        await (call % 2 === 0 ? isOver : afterTheNewest);
      };
      const options = { onBusy: 'replace', wait: '5m' } as const;
      let begun = 0;
      const calls = Array.from({ length: CALLS - 1 }, async (_, call) => {
        await new Promise((resolve) => setImmediate(resolve));
        begun += 1;
        await services[call % SERVICES]!.withLock(key, work(call), options);
      });
      const earlier = Promise.allSettled(calls);
      // No holder ends by itself. So in the end the newest of these calls has the key, and nobody waits for it.
      await eventually(() => {
        const waiting = services.flatMap((service) => service.held().waiting);
        expect([begun, waiting]).toEqual([CALLS - 1, []]);
      });
      const newest = await services[0]!.withLock(
        key,
        async (lock) => (await write(lock, CALLS), lock.token.value),
        options,
      );
      newestIsDone();
      await earlier;
      for (const outcome of await Promise.allSettled(late))
        expect(outcome).toMatchObject({ reason: { code: 'STALE_TOKEN' } });
      const { rows } = await database.pool.query('SELECT * FROM document WHERE key = $1', [key]);
      expect(rows).toEqual([{ key, call: CALLS, token: String(newest) }]);
      const log = await database.pool.query<{ call: number; token: string }>(
        'SELECT call, token FROM written WHERE key = $1 ORDER BY id',
        [key],
      );
      const tokens = log.rows.map(({ token }) => Number(token));
      expect(tokens).toEqual(tokens.toSorted((one, other) => one - other));
      expect(log.rows.at(-1)!.call).toBe(CALLS);
      expect(replaced.size).toBe(log.rows.length - 1);
    },
  );
});
