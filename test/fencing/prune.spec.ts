import { readFileSync } from 'node:fs';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { createPool } from 'mysql2/promise';
import type { PoolClient } from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  mysqlFence,
  pgliteFence,
  postgresFence,
  sqliteFence,
  type Fence,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import {
  AGE,
  AGE_HOURS,
  HOUR,
  itRefusesByAge,
  rowOf,
  timeOf,
  tokenOf,
  tooOld,
  type Target,
} from './support/refused-by-age.ts';
import { inMariadb, inPostgres, lockIsAwaited } from './support/hand-written-transactions.ts';

const LEVELS = ['read committed', 'repeatable read', 'serializable'] as const;

let count = 0;
let key: string;
beforeEach(() => void (key = `seat:${(count += 1)}`));

/** Where rows have locks. */
function itPassesHeldRows(
  target: Target,
  hold: (sql: string, work: () => Promise<void>) => unknown,
): void {
  it('leaves the row that a transaction holds, and waits for no one', async () => {
    const { fence, plain } = target;
    const keys = Array.from({ length: 10 }, (_none, index) => `${key}:${index}`);
    await plain.claim({ value: timeOf(5 * AGE_HOURS), keys, holder: 'old' });
    await hold(`SELECT 1 FROM redlock_fence WHERE resource = '${keys[7]}' FOR UPDATE`, async () => {
      const sleepless = new AbortController();
      const stuck = delay(15_000, 'stuck', { signal: sleepless.signal }).catch(() => 'over');
      expect(await Promise.race([fence.prune(), stuck])).toBe(9);
      sleepless.abort();
      await expect(fence.claim(tokenOf(keys[0]!, 4 * AGE_HOURS))).rejects.toEqual(tooOld());
      await fence.claim(tokenOf(keys[1]!, 0));
    });
    await expect(fence.prune()).resolves.toBe(1);
  });

  it('leaves the row of a key that is brought meanwhile, in whose transaction it is called', async () => {
    const { fence } = target;
    await target.run(rowOf(key, 5 * AGE_HOURS));
    const pruned = await fence.transaction(tokenOf(key, 0), () => fence.prune());
    expect(pruned).toBe(0);
    await expect(fence.claim(tokenOf(key, 1))).rejects.toMatchObject({
      currentHolder: '0 hours old',
    });
  });
}

/** A token that becomes too old in a second. */
const dying = (name: string, holder: string) =>
  new FencingToken(timeOf(AGE_HOURS) + 1_000_000, [name], holder);

describe('on PostgreSQL', () => {
  const database = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
  const target = {} as Target;
  let fence: Fence<PoolClient>;
  beforeAll(() => {
    const { pool } = database;
    fence = postgresFence(pool, AGE);
    Object.assign(target, {
      fence,
      plain: postgresFence(pool),
      run: (sql: string) => pool.query(sql),
    });
  });
  itRefusesByAge(target);
  itPassesHeldRows(target, (sql, work) =>
    inPostgres(database.pool, async (client) => {
      await client.query(sql);
      await work();
    }),
  );

  const forms: Record<
    string,
    (token: FencingToken, level: (typeof LEVELS)[number]) => Promise<unknown>
  > = {
    claim: (token) => fence.claim(token),
    transaction: (token, isolationLevel) => fence.transaction(token, () => 0, { isolationLevel }),
    advance: (token, level) =>
      inPostgres(database.pool, async (client) => {
        await client.query(`SET TRANSACTION ISOLATION LEVEL ${level}`);
        await fence.advance(client, token);
      }),
  };

  it.each(Object.keys(forms).flatMap((form) => LEVELS.map((level) => [form, level] as const)))(
    'refuses a %s at %s that came in time, waited for the row, and would insert it when it is too old',
    async (form, level) => {
      const { pool } = database;
      const newer = dying(key, 'newer');
      await fence.claim(newer);
      await pool.query(`ALTER ROLE CURRENT_USER SET default_transaction_isolation = '${level}'`);
      let late: Promise<unknown> | undefined;
      await inPostgres(pool, async (client) => {
        await client.query('DELETE FROM redlock_fence WHERE resource = $1', [key]);
        const older = new FencingToken(newer.value - 1, [key], 'older');
        late = forms[form]!(older, level).catch((error: unknown) => error);
        await lockIsAwaited(pool);
        await delay(1_100);
      });
      await pool.query('ALTER ROLE CURRENT_USER RESET default_transaction_isolation');
      await expect(late).resolves.toEqual(tooOld());
      const { rows } = await pool.query('SELECT 1 FROM redlock_fence WHERE resource = $1', [key]);
      expect(rows).toEqual([]);
    },
  );

  it('does not commit what swallowed the refusal', async () => {
    const { pool } = database;
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      await expect(fence.advance(client, tokenOf(key, AGE_HOURS + 1))).rejects.toEqual(tooOld());
      await expect(client.query('COMMIT')).resolves.toMatchObject({ command: 'ROLLBACK' });
    } finally {
      client.release();
    }
  });

  it('admits new holders again after the repair of the documentation', async () => {
    const page = readFileSync('docs/fencing/README.md', 'utf8');
    const repair = /^UPDATE redlock_fence SET token = \d+, .*;/m.exec(page)![0];
    await fence.claim(new FencingToken(timeOf(-400 * 24), [key], 'far ahead'));
    await expect(fence.claim(tokenOf(key, 0))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await target.run(repair.replace(/\d{16}/, String(timeOf(0))).replace('seat:12A', key));
    await fence.claim(tokenOf(key, -0.01));
    await expect(fence.claim(tokenOf(key, 1))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });
});

describe('on MariaDB', () => {
  const database = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));
  const target = {} as Target;
  beforeAll(() => {
    const { pool } = database;
    Object.assign(target, {
      fence: mysqlFence(pool, AGE),
      plain: mysqlFence(pool),
      run: (sql: string) => pool.query(sql),
    });
  });
  itRefusesByAge(target);
  itPassesHeldRows(target, (sql, work) =>
    inMariadb(database.pool, async (connection) => {
      await connection.query(sql);
      await work();
    }),
  );

  it.each(LEVELS)(
    'refuses a transaction at %s that came in time, waited for the row, and would insert it when it is too old',
    async (isolationLevel) => {
      const { fence } = target;
      const newer = dying(key, 'newer');
      await fence.claim(newer);
      let late: Promise<unknown> | undefined;
      await inMariadb(database.pool, async (connection) => {
        await connection.query('DELETE FROM redlock_fence WHERE resource = ?', [key]);
        const older = new FencingToken(newer.value - 1, [key], 'older');
        late = fence
          .transaction(older, () => 'admitted', { isolationLevel })
          .catch((error: unknown) => error);
        await delay(1_300);
      });
      await expect(late).resolves.toEqual(tooOld());
    },
  );

  it.each(['+13:00', '-11:00', 'SYSTEM'])(
    'judges ages by the same time where that of the session is %s',
    async (zone) => {
      const pool = createPool({ uri: database.url, connectionLimit: 1 });
      pool.on('connection', (connection) => void connection.query(`SET time_zone = '${zone}'`));
      try {
        const fence = mysqlFence(pool, AGE);
        await fence.claim(tokenOf(key, AGE_HOURS - 0.1));
        await expect(fence.claim(tokenOf(`${key}:old`, AGE_HOURS + 0.1))).rejects.toEqual(tooOld());
      } finally {
        await pool.end();
      }
    },
  );

  it('deletes keys that the character set of the connection cannot show', async () => {
    const keys = Array.from({ length: 60 }, (_none, index) => `${key}:место ${index} 🔑`);
    await target.plain.claim({ value: timeOf(5 * AGE_HOURS), keys, holder: 'old' });
    const pool = createPool({ uri: database.url, connectionLimit: 2 });
    pool.on('connection', (connection) => void connection.query('SET NAMES latin1'));
    try {
      await expect(mysqlFence(pool, AGE).prune()).resolves.toBe(60);
    } finally {
      await pool.end();
    }
  });
});

describe('on SQLite', () => {
  let database: Database.Database;
  const target = {} as Target;
  beforeAll(() => {
    database = new Database(':memory:');
    const fence = sqliteFence(database, AGE);
    database.exec(`${fence.ddl()} CREATE TABLE seat (id TEXT PRIMARY KEY, owner TEXT)`);
    const plain = sqliteFence(database);
    Object.assign(target, { fence, plain, run: (sql: string) => database.exec(sql) });
  });
  afterAll(() => void database.close());
  itRefusesByAge(target);

  it('refuses what is too old in a synchronous transaction', () => {
    const fence = sqliteFence(database, AGE);
    const write = database.transaction((ageHours: number) =>
      fence.advanceSync(database, tokenOf(key, ageHours)),
    );
    expect(() => write.immediate(AGE_HOURS + 1)).toThrow(tooOld());
    write.immediate(AGE_HOURS - 1);
  });

  it('lets others have their turn, and undoes nothing of theirs', async () => {
    const fill = `WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 20000)
INSERT INTO redlock_fence (resource, token) SELECT '${key}:' || n, ${timeOf(5 * AGE_HOURS)} FROM seq`;
    database.exec(fill);
    const fence = sqliteFence(database, AGE);
    database.prepare('INSERT INTO seat VALUES (?, 0)').run(key);
    const assign = database.transaction(() => {
      fence.advanceSync(database, tokenOf(key, 0, 'a'));
      database.prepare('UPDATE seat SET owner = owner + 1 WHERE id = ?').run(key);
    });
    let isOver = false;
    const pruned = fence.prune().finally(() => (isOver = true));
    let turns = 0;
    for (; !isOver; turns += 1) {
      if (!database.inTransaction) assign.immediate();
      await nextTurn();
    }
    await expect(pruned).resolves.toBe(20_000);
    expect(turns).toBeGreaterThan(15);
    const row = database.prepare('SELECT owner FROM seat WHERE id = ?').get(key);
    expect(row).toEqual({ owner: String(turns) });
  });
});

describe('in PGlite', () => {
  let lite: PGlite;
  const target = {} as Target;
  beforeAll(async () => {
    lite = await startPglite();
    const fence = pgliteFence(lite, AGE);
    await lite.exec(fence.ddl());
    Object.assign(target, {
      fence,
      plain: pgliteFence(lite),
      run: (sql: string) => lite.exec(sql),
    });
  });
  afterAll(() => lite.close());
  itRefusesByAge(target);
});

it.each(['59m', '30', null, Number.NaN, 1e300, -1] as any[])('refuses %p for the age', (maxAge) => {
  const made = () => sqliteFence(new Database(':memory:'), { maxAge });
  expect(made).toThrow(expect.objectContaining({ code: 'REDLOCK_CONFIG', option: 'maxAge' }));
});

it.each(['1h', '1.5d', HOUR, '9000d'] as const)('takes %p for the age', (maxAge) => {
  expect(() => sqliteFence(new Database(':memory:'), { maxAge })).not.toThrow();
});
