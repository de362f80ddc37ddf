import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { createPool, type Pool as MysqlPool } from 'mysql2/promise';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { mysqlFence, postgresFence, sqliteFence, type Fence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { inMariadb, inPostgres } from './support/hand-written-transactions.ts';

const DAY = 86_400_000;
const AGE = { olderThan: '30d' } as const;

const tokenOf = (key: string, ageDays: number): FencingToken =>
  new FencingToken((Date.now() - ageDays * DAY) * 1_000, [key], `${ageDays} days old`);

const usage = (why: RegExp) =>
  expect.objectContaining({ code: 'FENCED_USAGE', message: expect.stringMatching(why) });
const stale = expect.objectContaining({ code: 'STALE_TOKEN' });

let count = 0;
let key: string;
beforeEach(() => void (key = `seat:${(count += 1)}`));

/** What every database owes a prune. */
function itPrunesBeside(database: { readonly fence: Fence; run(sql: string): unknown }): void {
  beforeEach(
    async () => void (await database.run("UPDATE redlock_fence SET token = 1 WHERE resource = ''")),
  );

  it('refuses to wait for the transaction in whose work it is called, and the fence goes on', async () => {
    const { fence } = database;
    const work = () => fence.prune(AGE).catch((error: unknown) => error);
    const refusal = await fence.transaction(tokenOf(key, 0), work);
    expect(refusal).toEqual(usage(/in the work of a fence transaction/));
    await fence.claim(tokenOf(key, 0));
    await fence.prune(AGE);
  });

  it('names the migration where there is no table', async () => {
    await database.run('ALTER TABLE redlock_fence RENAME TO hidden_fence');
    await expect(database.fence.prune(AGE)).rejects.toEqual(usage(/does not exist.*CREATE TABLE/s));
    await database.run('ALTER TABLE hidden_fence RENAME TO redlock_fence');
  });

  it('counts each key once where two prune at the same time', async () => {
    const { fence } = database;
    const keys = Array.from({ length: 60 }, (_none, index) => `${key}:${index}`);
    await fence.claim({ value: tokenOf(key, 40).value, keys, holder: 'old' });
    const pruned = await Promise.all([fence.prune(AGE), fence.prune({ olderThan: '31d' })]);
    expect(pruned[0] + pruned[1]).toBe(60);
  });

  it.each([Infinity, 1e300, 2 ** 53, ['2d'], null, undefined])(
    'refuses the age %p',
    async (age) => {
      const pruned = database.fence.prune({ olderThan: age as never });
      await expect(pruned).rejects.toMatchObject({ option: 'olderThan' });
      await expect((database.fence as any).prune()).rejects.toMatchObject({ option: 'olderThan' });
    },
  );

  it.each(['99999d', 1e15] as const)('finds nothing as old as %p', async (olderThan) => {
    await database.fence.claim(tokenOf(key, 0));
    await expect(database.fence.prune({ olderThan })).resolves.toBe(0);
  });
}

/** Runs the work while another transaction has the lock of the row. */
type HoldRow = (name: string, work: () => Promise<void>) => Promise<unknown>;

const HELD_ROW = (name: string) =>
  `SELECT 1 FROM redlock_fence WHERE resource = '${name}' FOR UPDATE`;

/** Where rows have locks. */
function itPassesHeldRows(database: { readonly fence: Fence }, hold: HoldRow): void {
  it('leaves the row that a transaction holds, and waits for no one', async () => {
    const { fence } = database;
    const keys = Array.from({ length: 10 }, (_none, index) => `${key}:${index}`);
    await fence.claim({ value: tokenOf(key, 40).value, keys, holder: 'old' });
    const sleepless = new AbortController();
    await hold(keys[7]!, async () => {
      const stuck = delay(15_000, 'stuck', { signal: sleepless.signal }).catch(() => 'over');
      expect(await Promise.race([fence.prune(AGE), stuck])).toBe(9);
      sleepless.abort();
      await expect(fence.claim(tokenOf(keys[0]!, 39))).rejects.toEqual(stale);
      await fence.claim(tokenOf(keys[1]!, 0));
    });
    await expect(fence.claim(tokenOf(keys[7]!, 41))).rejects.toEqual(stale);
    await expect(fence.prune(AGE)).resolves.toBe(1);
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
  const target = {} as { fence: Fence; run: (sql: string) => unknown };
  beforeAll(() => {
    const { pool } = database;
    Object.assign(target, { fence: postgresFence(pool), run: (sql: string) => pool.query(sql) });
  });
  itPrunesBeside(target);
  itPassesHeldRows(target, (name, work) =>
    inPostgres(database.pool, async (client) => {
      await client.query(HELD_ROW(name));
      await work();
    }),
  );

  it.each([
    ['text', (text: string | null) => text],
    ['numbers', (text: string | null) => (text === 't' ? 1 : text === 'f' ? 0 : text)],
  ])('refuses a pruned token where the driver gives booleans as %s', async (_, parse) => {
    const types = { getTypeParser: () => parse } as unknown as pg.CustomTypesConfig;
    const pool = new pg.Pool({ connectionString: database.url, types, max: 2 });
    try {
      const fence = postgresFence(pool);
      await fence.claim(tokenOf(key, 40));
      await fence.prune(AGE);
      const write = fence.transaction(tokenOf(key, 41), () => 'WROTE');
      await expect(write).rejects.toEqual(stale);
      await expect(fence.transaction(tokenOf(key, 0), () => 'wrote')).resolves.toBe('wrote');
    } finally {
      await pool.end();
    }
  });

  it('reads at READ COMMITTED, whatever the level of the database', async () => {
    const texts: string[] = [];
    const pool = new pg.Pool({ connectionString: database.url, max: 2 });
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown;
      client.query = ((...args: unknown[]) => {
        texts.push(typeof args[0] === 'string' ? args[0] : (args[0] as { text: string }).text);
        return query(...args);
      }) as never;
    });
    try {
      await postgresFence(pool).prune(AGE);
    } finally {
      await pool.end();
    }
    const begins = texts.filter((text) => /^(BEGIN|START)/i.test(text));
    expect(begins.length).toBeGreaterThan(1);
    for (const begin of begins) expect(begin).toMatch(/READ COMMITTED/i);
  });

  it('comes to an end although one transaction of a new key begins before the other has ended', async () => {
    const { fence } = target;
    let isPruned = false;
    let end = (): void => undefined;
    const open = async (name: string) => {
      await new Promise<void>((begun) => {
        const ended = new Promise<void>((resolve) => (end = resolve));
        void fence.transaction(tokenOf(`${key}:${name}`, 0), () => (begun(), ended));
      });
      return end;
    };
    let endLast = await open('first');
    const pruned = fence.prune(AGE).finally(() => (isPruned = true));
    let turns = 0;
    for (; !isPruned && turns < 100; turns += 1) {
      await delay(100);
      // The next one begins before this one ends, unless it has to wait behind the prune.
      const next = open(String(turns));
      await Promise.race([next, delay(300)]);
      endLast();
      endLast = await next;
    }
    endLast();
    await pruned;
    expect(turns).toBeLessThan(100);
  });
});

describe('on MariaDB', () => {
  const database = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));
  const target = {} as { fence: Fence; run: (sql: string) => unknown };
  beforeAll(() => {
    const { pool } = database;
    Object.assign(target, { fence: mysqlFence(pool), run: (sql: string) => pool.query(sql) });
  });
  itPrunesBeside(target);
  itPassesHeldRows(target, (name, work) =>
    inMariadb(database.pool, async (connection) => {
      await connection.query(HELD_ROW(name));
      await work();
    }),
  );

  /** A pool whose connections begin with this statement. */
  async function withPool<Result>(sql: string, use: (pool: MysqlPool) => Promise<Result>) {
    const pool = createPool({ uri: database.url, connectionLimit: 8 });
    pool.on('connection', (connection) => void connection.query(sql));
    try {
      return await use(pool);
    } finally {
      await pool.end();
    }
  }

  it('is tried again where the database refuses rows that changed since its snapshot', async () => {
    await withPool('SET SESSION innodb_snapshot_isolation = ON', async (pool) => {
      const fence = mysqlFence(pool);
      for (let round = 0; round < 10; round += 1) {
        const ages = [400 - round * 5, 398 - round * 5].map((days) => days * DAY);
        const pruned = ages.map((olderThan) => fence.prune({ olderThan }));
        expect(await Promise.all(pruned)).toEqual([0, 0]);
      }
    });
  });

  it('tries the floor again after more deadlocks than a transaction is tried again for', async () => {
    let deadlocks = 25;
    const getConnection = async () => {
      const connection = await database.pool.getConnection();
      const query = async (statement: { sql?: string }, ...rest: []) => {
        if (statement.sql?.startsWith('INSERT') && deadlocks > 0) {
          deadlocks -= 1;
          const fields = { code: 'ER_LOCK_DEADLOCK', errno: 1213, sqlState: '40001' };
          throw Object.assign(new Error('Deadlock found'), fields);
        }
        return connection.query(statement as never, ...rest);
      };
      return {
        query,
        release: () => connection.release(),
        destroy: () => connection.destroy(),
      };
    };
    await target.fence.claim(tokenOf(key, 40));
    await expect(mysqlFence({ getConnection } as never).prune(AGE)).resolves.toBe(1);
    expect(deadlocks).toBe(0);
  });

  it('locks no rows of others at SERIALIZABLE', async () => {
    const level = 'SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE';
    await withPool(level, async (pool) => {
      const fence = mysqlFence(pool);
      const sleepless = new AbortController();
      let pruned: Promise<number> | undefined;
      let begin = (): void => undefined;
      void new Promise<void>((resolve) => (begin = resolve)).then(
        () => (pruned = fence.prune(AGE)),
      );
      const claimed = await target.fence.transaction(tokenOf(key, 0), async () => {
        begin();
        await delay(700);
        const claims = [1, 2, 3].map((index) => target.fence.claim(tokenOf(`${key}:${index}`, 0)));
        const stuck = delay(15_000, 'stuck', { signal: sleepless.signal }).catch(() => 'over');
        const outcome = await Promise.race([Promise.all(claims).then(() => 'claimed'), stuck]);
        sleepless.abort();
        return outcome;
      });
      expect(claimed).toBe('claimed');
      await pruned;
    });
  });

  it('deletes keys that the character set of the connection cannot show', async () => {
    const keys = Array.from({ length: 60 }, (_none, index) => `${key}:место ${index} 🔑`);
    await target.fence.claim({ value: tokenOf(key, 40).value, keys, holder: 'old' });
    await withPool('SET NAMES latin1', async (pool) => {
      await expect(mysqlFence(pool).prune(AGE)).resolves.toBe(60);
    });
  });

  it('deletes many keys in few statements', async () => {
    const fill = `INSERT INTO redlock_fence (resource, token) SELECT CONCAT('${key}:', seq), ${tokenOf(key, 40).value} FROM seq_1_to_5000`;
    await target.run(fill);
    const [before] = (await target.run("SHOW GLOBAL STATUS LIKE 'Com_delete%'")) as any;
    await expect(target.fence.prune(AGE)).resolves.toBe(5_000);
    const [after] = (await target.run("SHOW GLOBAL STATUS LIKE 'Com_delete%'")) as any;
    const total = (rows: any[]) => rows.reduce((sum, row) => sum + Number(row.Value), 0);
    expect(total(after) - total(before)).toBeLessThan(200);
  });
});

describe('on SQLite', () => {
  let connection: Database.Database;
  const target = {} as { fence: Fence; run: (sql: string) => unknown };
  beforeAll(() => {
    connection = new Database(':memory:');
    const fence = sqliteFence(connection);
    connection.exec(`${fence.ddl()} CREATE TABLE seat (id TEXT PRIMARY KEY, owner TEXT)`);
    Object.assign(target, { fence, run: (sql: string) => connection.exec(sql) });
  });
  afterAll(() => void connection.close());
  itPrunesBeside(target);

  it('never undoes what others write on the connection, also when it refuses', async () => {
    const fence = sqliteFence(connection);
    const token = tokenOf(key, 0);
    connection.prepare('INSERT INTO seat VALUES (?, NULL)').run(key);
    await fence.claim(new FencingToken(7, [`${key}:counter`], 'counted'));
    const assign = connection.transaction((owner: string) => {
      fence.advanceSync(connection, token);
      connection.prepare('UPDATE seat SET owner = ? WHERE id = ?').run(owner, key);
    });
    for (let turns = 0; turns < 12; turns += 1) {
      const refused = fence.prune(AGE).catch((error: unknown) => error);
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      assign.immediate(`owner ${turns}`);
      expect(await refused).toEqual(usage(/counter/));
      const row = connection.prepare('SELECT owner FROM seat WHERE id = ?').get(key);
      expect(row).toEqual({ owner: `owner ${turns}` });
    }
    connection.prepare('DELETE FROM redlock_fence WHERE resource = ?').run(`${key}:counter`);
  });

  it('lets others have their turn', async () => {
    const fill = `WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 20000)
INSERT INTO redlock_fence (resource, token) SELECT '${key}:' || n, ${tokenOf(key, 40).value} FROM seq`;
    connection.exec(fill);
    let isOver = false;
    const pruned = target.fence.prune(AGE).finally(() => (isOver = true));
    let turns = 0;
    for (; !isOver; turns += 1) await nextTurn();
    await expect(pruned).resolves.toBe(20_000);
    expect(turns).toBeGreaterThan(15);
  });

  it('says so where a transaction of the user is open', async () => {
    connection.exec('BEGIN');
    await expect(target.fence.prune(AGE)).rejects.toEqual(usage(/transaction is open/));
    connection.exec('ROLLBACK');
  });
});
