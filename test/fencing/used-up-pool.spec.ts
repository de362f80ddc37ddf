import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { mysqlFence, postgresFence, type Fence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';

// A call inside fence.transaction that takes a second connection waits for one that such calls hold: with a pool of one, at once.

const postgres = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
const mariadb = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));

/** A pool of one connection, with a fence over it. */
interface UsedUp {
  readonly fence: Fence;
  readonly query: () => Promise<unknown>;
  readonly close: () => unknown;
}
const POOLS: Readonly<Record<string, (make: typeof freshModule) => Promise<UsedUp>>> = {
  pg: async (make) => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    const fence = (await make()).postgresFence(pool) as Fence;
    return { fence, query: () => pool.query('SELECT 1'), close: () => pool.end() };
  },
  mysql2: async (make) => {
    const pool = createPool({ uri: mariadb.url, connectionLimit: 1 });
    const fence = (await make()).mysqlFence(pool) as Fence;
    return { fence, query: () => pool.query('SELECT 1'), close: () => pool.end() };
  },
};

/** It warns once per process, as a fresh one does. */
const freshModule = async () => {
  jest.resetModules();
  return import('../../lib/fencing/index.ts');
};

describe.each(Object.keys(POOLS))('with a pool of %s that is used up', (name) => {
  let pool: UsedUp;
  const environment = process.env['NODE_ENV'];
  beforeEach(async () => {
    pool = await POOLS[name]!(freshModule);
  });
  afterEach(async () => {
    process.env['NODE_ENV'] = environment;
    await pool.close();
    jest.restoreAllMocks();
  });
  const token = (key: string) => ({ value: 1, keys: [`${name}:${key}`], holder: 'h' });

  it.each(['test', 'production'])(
    'a query, a claim and a transaction inside are a warning as soon as they wait, once, with NODE_ENV %s',
    async (value) => {
      process.env['NODE_ENV'] = value;
      const { fence, query } = pool;
      const warn = jest.spyOn(process, 'emitWarning').mockReturnValue();
      const uses = {
        query,
        claim: () => fence.claim(token('other')),
        transaction: () => fence.transaction(token('other'), () => undefined),
      };
      for (const [use, call] of Object.entries(uses)) {
        const outer = token(use);
        let waiting: Promise<unknown> | undefined;
        await fence.transaction(outer, async (tx) => {
          waiting = call();
          await tx.query('SELECT 1');
        });
        await waiting;
      }
      expect(warn.mock.calls).toEqual([
        [
          expect.stringMatching(
            new RegExp(`inside fence.transaction for "${name}:query" waits .* of the pool.*Use tx`),
          ),
          'FenceWarning',
        ],
      ]);
    },
  );

  it.each(['claim', 'transaction'] as const)(
    'a %s of the fence itself is one, too',
    async (use) => {
      const { fence } = pool;
      const warn = jest.spyOn(process, 'emitWarning').mockReturnValue();
      let waiting: Promise<unknown> | undefined;
      await fence.transaction(token('outer'), async (tx) => {
        waiting =
          use === 'claim' ? fence.claim(token('o')) : fence.transaction(token('o'), () => 0);
        await tx.query('SELECT 1');
        expect(warn).toHaveBeenCalledTimes(1);
      });
      await waiting;
    },
  );

  it('calls that wait for each other outside are none', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockReturnValue();
    const { fence, query } = pool;
    const calls = ['a', 'b', 'c'].map((key) => fence.transaction(token(key), () => undefined));
    await Promise.all([...calls, query(), fence.claim(token('d'))]);
    expect(warn).not.toHaveBeenCalled();
  });
});
