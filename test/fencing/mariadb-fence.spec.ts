import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/mysql2';
import knexModule from 'knex';
import { createPool, type Pool, type PoolConnection, type PoolOptions } from 'mysql2/promise';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { drizzleFence, knexFence, mysqlFence, type Fence } from '../../lib/fencing/index.ts';
import { useMariadb } from '../support/databases/use-databases.ts';

describe('mysqlFence', () => {
  const database = useMariadb(async (pool) => {
    await pool.query(mysqlFence(pool).ddl());
    await pool.query(
      'CREATE OR REPLACE TABLE item (id VARCHAR(50) PRIMARY KEY, n INT NOT NULL) ENGINE = InnoDB',
    );
  });
  let count = 0;
  let key: string;
  const a = () => `${key}:a`;
  const b = () => `${key}:b`;

  beforeEach(async () => {
    key = `item:${(count += 1)}`;
    await database.pool.query('INSERT INTO item VALUES (?, 0), (?, 0)', [a(), b()]);
  });

  const token = (value: number, keys = [key]): FencingToken =>
    new FencingToken(value, keys, `holder-${value}`);
  const stored = async (id: string): Promise<number> => {
    const [rows] = await database.pool.query('SELECT n FROM item WHERE id = ?', [id]);
    return (rows as { n: number }[])[0]!.n;
  };
  const alone = { connectionLimit: 1 };
  /** @param setting with which its sessions begin */
  async function withPool<Result>(
    work: (pool: Pool) => Promise<Result>,
    { setting, ...options }: PoolOptions & { setting?: string } = {},
  ): Promise<Result> {
    const pool = createPool({ uri: database.url, connectionLimit: 40, ...options });
    if (setting !== undefined) pool.on('connection', (connection) => connection.query(setting));
    try {
      return await work(pool);
    } finally {
      await pool.end();
    }
  }

  describe('when the work swallows the error of a deadlock', () => {
    /** InnoDB rolls the whole transaction back: it is the one that has written less. */
    async function deadlock(run: (sql: string) => Promise<unknown>): Promise<void> {
      const other = await database.pool.getConnection();
      try {
        await other.beginTransaction();
        await other.query('UPDATE item SET n = n + 100 WHERE id = ?', [b()]);
        for (let row = 0; row < 20; row += 1)
          await other.query('INSERT INTO item VALUES (?, 1)', [`${key}:more:${row}`]);
        await run(`UPDATE item SET n = 7 WHERE id = '${a()}'`);
        const waiting = other.query('UPDATE item SET n = n + 100 WHERE id = ?', [a()]);
        await expect(run(`UPDATE item SET n = 7 WHERE id = '${b()}'`)).rejects.toBeDefined();
        await waiting;
      } finally {
        await other.rollback();
        other.release();
      }
    }

    it.each(['mysql2', 'Knex'])('%s does not report success', async (name) => {
      const knex = knexModule({ client: 'mysql2', connection: database.url });
      try {
        const isKnex = name === 'Knex';
        const fence: Fence = isKnex ? knexFence(knex) : mysqlFence(database.pool);
        let runs = 0;
        const tolerant = fence.transaction(token(10), async (tx) => {
          if ((runs += 1) === 1) await deadlock((text) => (isKnex ? tx.raw(text) : tx.query(text)));
          return 'done';
        });
        await expect(tolerant).rejects.toMatchObject({
          code: 'FENCED_USAGE',
          message: expect.stringContaining('ended before'),
        });
        expect([await stored(a()), await stored(b())]).toEqual([0, 0]);
      } finally {
        await knex.destroy();
      }
    });

    it('and goes on, nothing that follows is written, and the connection is as it was', async () => {
      await withPool(async (pool) => {
        const tolerant = mysqlFence(pool).transaction(token(10), async (tx) => {
          await deadlock((text) => tx.query(text));
          await tx.query('UPDATE item SET n = 9 WHERE id = ?', [a()]);
          throw new Error('later');
        });
        await expect(tolerant).rejects.toThrow('later');
        expect(await stored(a())).toBe(0);
        await pool.query('UPDATE item SET n = 1 WHERE id = ?', [a()]);
        expect(await stored(a())).toBe(1);
      }, alone);
    });
  });

  it.each(['REPEATABLE-READ', 'SERIALIZABLE'])(
    'tries again under innodb_snapshot_isolation at %s',
    async (level) => {
      await withPool(
        async (pool) => {
          const fence = mysqlFence(pool);
          const holders = Array.from({ length: 30 }, () =>
            fence.transaction(
              token(7),
              async (tx) => {
                const [rows] = await tx.query('SELECT n FROM item WHERE id = ?', [a()]);
                const n = (rows as { n: number }[])[0]!.n;
                await tx.query('UPDATE item SET n = ? WHERE id = ?', [n + 1, a()]);
              },
              { attempts: 200 },
            ),
          );
          await Promise.all(holders);
          expect(await stored(a())).toBe(30);
        },
        {
          setting: `SET SESSION innodb_snapshot_isolation = ON, SESSION tx_isolation = '${level}'`,
        },
      );
    },
  );

  const injection = "' USING utf8mb4), (select 9 from (select sleep(2)) s), 0x61) -- ";
  const strange = ["it's", injection, '\\', "\\'", '%"?', 'ключ 🎟', 'trailing '];
  const SETTINGS: Readonly<Record<string, PoolOptions & { setting?: string }>> = {
    NO_BACKSLASH_ESCAPES: {
      setting: "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')",
    },
    'the character set latin1': { setting: 'SET NAMES latin1' },
    'the character set utf8mb3': { setting: 'SET NAMES utf8mb3' },
    'rows as arrays': { rowsAsArray: true },
    'nested tables': { nestTables: true },
    'names of tables in those of columns': { nestTables: '_' },
  };

  it.each(Object.keys(SETTINGS))('treats a key as nothing but a key under %s', async (name) => {
    await withPool(async (pool) => {
      const own = mysqlFence(pool);
      const fences = [own, drizzleFence(drizzle(pool), { sql, dialect: 'mysql' }) as Fence];
      // Drizzle reads rows of its own shape only.
      for (const fence of SETTINGS[name]!.setting ? fences : [own])
        for (const each of strange) {
          const keys = [`${key}${each}`];
          await fence.claim(new FencingToken(2, keys, `a'\\"`));
          await expect(fence.claim(token(1, keys))).rejects.toMatchObject({
            code: 'STALE_TOKEN',
            key: keys[0],
            currentToken: '2',
            currentHolder: `a'\\"`,
          });
        }
      const { pool: usual } = database;
      const [rows] = await usual.query('SELECT token FROM redlock_fence WHERE token = 9');
      expect(rows).toEqual([]);
    }, SETTINGS[name]);
  });

  it('refuses an advance on a pool without autocommit, whose first statement begins a transaction', async () => {
    await withPool(
      async (pool) => {
        const outside = mysqlFence(pool).advance(pool as never, token(1));
        await expect(outside).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      },
      { setting: 'SET autocommit = 0' },
    );
  });

  describe('on a connection whose last user', () => {
    const leftovers: Record<string, string> = {
      'began a transaction': 'START TRANSACTION',
      'switched autocommit off': 'SET autocommit = 0',
    };
    /** Does what a user of the pool does and forgets to end. */
    async function leave(pool: Pool, ...statements: string[]): Promise<void> {
      const connection = await pool.getConnection();
      for (const statement of statements) await connection.query(statement);
      connection.release();
    }
    const add = (fence: Fence, value: number, level?: 'repeatable read' | 'serializable') =>
      fence.transaction(
        token(value),
        async (tx: PoolConnection) => {
          const [rows] = await tx.query('SELECT n FROM item WHERE id = ?', [a()]);
          const sum = (rows as { n: number }[])[0]!.n + value;
          await tx.query('UPDATE item SET n = ? WHERE id = ?', [sum, a()]);
        },
        level && { isolationLevel: level },
      );

    it.each(Object.keys(leftovers))('%s: loses no update of an older holder', async (name) => {
      for (const [value, level] of [[1], [3, 'repeatable read'], [5, 'serializable']] as const) {
        const before = await stored(a());
        await withPool(async (pool) => {
          await leave(pool, leftovers[name]!, 'SELECT * FROM item');
          await add(mysqlFence(database.pool), value);
          await add(mysqlFence(pool), value + 1, level);
        }, alone);
        expect(await stored(a())).toBe(before + 2 * value + 1);
      }
    });

    it.each(Object.keys(leftovers))('%s: does not commit what was half done', async (name) => {
      await withPool(async (pool) => {
        const fence = mysqlFence(pool);
        for (const use of [() => fence.claim(token(5)), () => add(fence, 5)]) {
          await leave(pool, leftovers[name]!, `UPDATE item SET n = 77 WHERE id = '${b()}'`);
          await use();
        }
      }, alone);
      expect([await stored(a()), await stored(b())]).toEqual([5, 0]);
    });

    it('works without autocommit finds it so again, and adds no round trip where nothing was left', async () => {
      await withPool(async (pool) => {
        const fence = mysqlFence(pool);
        const connection = await pool.getConnection();
        connection.release();
        const sent = jest.spyOn(connection.connection, 'query');
        await leave(pool, 'SET autocommit = 0');
        await add(fence, 5);
        await leave(pool, `UPDATE item SET n = 77 WHERE id = '${b()}'`, 'ROLLBACK');
        expect(await stored(b())).toBe(0);
        await leave(pool, 'SET autocommit = 1');
        sent.mockClear();
        await fence.claim(token(5));
        expect(sent).toHaveBeenCalledTimes(5);
        await leave(pool, `UPDATE item SET n = 78 WHERE id = '${b()}'`, 'ROLLBACK');
      }, alone);
      expect(await stored(b())).toBe(78);
    });
  });
});
