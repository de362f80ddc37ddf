import { afterAll, describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import pg from 'pg';
import { mysqlFence, postgresFence, sqliteFence, type Fence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';

/** Database in which the tables of these tests are made. */
interface Target {
  readonly open: (table: string) => Fence;
  readonly run: (sql: string) => unknown;
  /** Changes of the text of `ddl`, and what is found then. */
  readonly wrong: Wrong;
  /** Changes of the text of `ddl`, or statements, with which every call fails, and what is said then. */
  readonly lasting: Wrong;
}

type Wrong = readonly (readonly [from: string | RegExp, to: string, found: RegExp])[];

function itChecks({ open, run, wrong, lasting }: Target): void {
  let tables = 0;
  const newName = (): string => `checked_${(tables += 1)}`;

  it('finds nothing wrong with the table of ddl, also when it was used', async () => {
    const fence = open(newName());
    await run(fence.ddl());
    expect(await fence.check()).toEqual([]);
    await fence.claim({ value: 7, keys: ['seat'], holder: 'a' });
    expect(await fence.check()).toEqual([]);
  });

  it('warns where there is no table, with the SQL that creates it', async () => {
    const fence = open(newName());
    const message = expect.stringContaining(fence.ddl());
    expect(await fence.check()).toEqual([{ severity: 'warning', message }]);
    await run(fence.ddl());
    expect(await fence.check()).toEqual([]);
  });

  it.each(wrong)('finds a table whose ddl has, for %p, %p', async (from, to, found) => {
    const fence = open(newName());
    const ddl = fence.ddl().replace(from, to);
    expect(ddl).not.toBe(fence.ddl());
    await run(ddl);
    const message = expect.stringMatching(found);
    expect(await fence.check()).toEqual([{ severity: 'error', message }]);
  });

  it.each(lasting)(
    'warns of what does not pass by itself where the ddl has, for %p, %p',
    async (from, to, found) => {
      const fence = open(newName());
      await run(fence.ddl().replace(from, to));
      const message = expect.stringMatching(
        new RegExp(`Fenced writes fail.*${found.source}.*does not pass by itself`),
      );
      expect(await fence.check()).toEqual([{ severity: 'warning', message }]);
    },
  );

  it('leaves nothing in the table', async () => {
    const name = newName();
    const fence = open(name);
    await run(fence.ddl());
    await fence.check();
    const result = JSON.stringify(await run(`SELECT resource FROM ${name}`));
    expect(result ?? '').not.toMatch(/check/);
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres((pool) =>
    pool.query(
      "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    ),
  );
  const target = {
    open: (table: string) => postgresFence(database.pool, { table }),
    run: (sql: string) => database.pool.query(sql),
  };
  itChecks({
    ...target,
    wrong: [
      ['resource text COLLATE "C"', 'resource char(80)', /differ in a blank|one row for each key/],
      ['token bigint', 'token numeric(20, 2)', /rejects the first token/],
      ['"C"', 'loose', /differ in case/],
    ],
    lasting: [
      ['PRIMARY KEY', 'NOT NULL', /no unique or exclusion constraint/],
      ['token bigint', 'token integer', /out of range/],
      ["''\n)", "'', more text NOT NULL)", /null value in column "more"/],
    ],
  });

  it.each([
    ['CREATE ROLE reader; SET ROLE reader', /permission denied/],
    ['SET default_transaction_read_only = on', /read-only transaction/],
  ])('warns of what does not pass by itself after %s', async (settings, found) => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 });
    const fence = postgresFence(pool, { table: 'unwritable' });
    await database.pool.query(fence.ddl());
    await pool.query(settings);
    const [finding, ...others] = await fence.check();
    await pool.query('RESET ROLE; DROP ROLE IF EXISTS reader').catch(() => undefined);
    await pool.end();
    expect([finding?.severity, others]).toEqual(['warning', []]);
    expect(finding?.message).toMatch(found);
    expect(finding?.message).toMatch(/does not pass by itself/);
  });

  it('rejects when the database is out of reach, which may pass', async () => {
    const pool = new pg.Pool({ host: '127.0.0.1', port: 1 });
    await expect(postgresFence(pool).check()).rejects.toThrow(/ECONNREFUSED/);
  });

  it('finds a trigger that forgets', async () => {
    await target.run(target.open('forgets').ddl());
    await target.run(`CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN DELETE FROM forgets; RETURN NULL; END';
      CREATE TRIGGER forgetting AFTER UPDATE ON forgets FOR EACH ROW EXECUTE FUNCTION forget()`);
    const message = expect.stringMatching(/accepts an older token/);
    expect(await target.open('forgets').check()).toEqual([{ severity: 'error', message }]);
  });
});

describe('on MariaDB', () => {
  const database = useMariadb(async () => undefined);
  const target = {
    open: (table: string) => mysqlFence(database.pool, { table }),
    run: (sql: string) => database.pool.query(sql),
  };
  const wrong: Wrong = [
    [
      /2500([^]*)InnoDB ROW_FORMAT = DYNAMIC/,
      '250$1MyISAM',
      /keeps what was rolled back|outside a transaction/,
    ],
    ['VARBINARY(2500)', 'VARCHAR(700)', /differ in case|one row for each key/],
    ['token BIGINT', 'token DOUBLE', /rejects the first token/],
    [' PRIMARY KEY', '', /one row for each key/],
    [
      /NOT NULL PRIMARY KEY([^]*)''\n\)/,
      "NOT NULL$1'', PRIMARY KEY (resource, token))",
      /one row for each key/,
    ],
    [
      /NOT NULL PRIMARY KEY([^]*)''\n\)/,
      "NOT NULL$1'', PRIMARY KEY (resource(3)))",
      /one row for each key|differ in case/,
    ],
  ];
  const lasting: Wrong = [
    ['token BIGINT', 'token INT', /Out of range/],
    ["''\n)", "'', more INT NOT NULL)", /more/],
  ];
  itChecks({ ...target, wrong, lasting });
});

describe('on SQLite', () => {
  const database = new Database(':memory:');
  afterAll(() => void database.close());
  const wrong: Wrong = [
    ['TEXT NOT NULL', 'TEXT COLLATE NOCASE NOT NULL', /differ in case/],
    ['TEXT NOT NULL', 'TEXT COLLATE RTRIM NOT NULL', /differ in a blank/],
    ['token INTEGER', 'token REAL', /rejects the first token/],
  ];
  itChecks({
    open: (table) => sqliteFence(database, { table }),
    run: (sql) => (sql.startsWith('SELECT') ? database.prepare(sql).all() : database.exec(sql)),
    wrong,
    lasting: [["''\n)", "'', more TEXT NOT NULL)", /NOT NULL constraint failed/]],
  });

  it('warns of a file that can only be read', async () => {
    const own = new Database(':memory:');
    const fence = sqliteFence(own);
    own.exec(`${fence.ddl()} PRAGMA query_only = ON`);
    const message = expect.stringMatching(/readonly.*does not pass by itself/);
    expect(await fence.check()).toEqual([{ severity: 'warning', message }]);
    own.close();
  });
});
