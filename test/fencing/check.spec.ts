import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import Database from 'better-sqlite3';
import pg from 'pg';
import { mysqlFence, pgliteFence, postgresFence, sqliteFence } from '../../lib/fencing/index.ts';
import type { Fence } from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { knexClient } from './support/open-clients.ts';

/** Where the tables of these tests are made. */
interface Target {
  readonly open: (table: string) => Fence;
  readonly run: (sql: string) => unknown;
  /** Changes of the text of `ddl`, and what is found then. */
  readonly wrong: Wrong;
}

type Wrong = readonly (readonly [from: string | RegExp, to: string, found: RegExp])[];

function itChecks({ open, run, wrong }: Target): void {
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

  it('leaves nothing in the table', async () => {
    const name = newName();
    const fence = open(name);
    await run(fence.ddl());
    await fence.check();
    const result = JSON.stringify(await run(`SELECT resource FROM ${name}`));
    expect(result ?? '').not.toMatch(/check/);
  });
}

const IN_POSTGRES: Wrong = [
  ['resource text COLLATE "C"', 'resource char(80)', /differ in a blank|one row for each key/],
  ['token bigint', 'token numeric(20, 2)', /refuses the first token/],
];
describe('on PostgreSQL', () => {
  const database = usePostgres((pool) =>
    pool.query(
      "CREATE SCHEMA app; CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    ),
  );
  const target = {
    open: (table: string) => postgresFence(database.pool, { table }),
    run: (sql: string) => database.pool.query(sql),
  };
  const collation = ['"C"', 'loose', /differ in case for one/] as const;
  itChecks({
    ...target,
    wrong: [...IN_POSTGRES, collation],
  });

  it('finds a table in its schema, and takes no table of another one for it', async () => {
    const [fence, other] = [target.open('app.seats_fence'), target.open('seats_fence')];
    await target.run(fence.ddl());
    expect([await fence.check(), (await other.check()).length]).toEqual([[], 1]);
  });

  it('says what a user lacks who may not write to it', async () => {
    await target.run(target.open('granted').ddl());
    await target.run('CREATE ROLE reader; GRANT SELECT ON granted TO reader');
    const own = new pg.Pool({ connectionString: database.url, max: 1 });
    try {
      await own.query('SET ROLE reader');
      const fence = postgresFence(own, { table: 'granted' });
      await expect(fence.check()).rejects.toThrow(/permission denied for table granted/);
      await target.run('GRANT SELECT, INSERT, UPDATE ON granted TO reader');
      expect(await fence.check()).toEqual([]);
    } finally {
      await own.end();
    }
  });

  it.each([
    [
      'keeps tokens out',
      'BEFORE INSERT OR UPDATE',
      'NEW.token := 5; RETURN NEW',
      /refuses the first/,
    ],
    ['forgets', 'AFTER UPDATE', 'DELETE FROM forgets; RETURN NULL', /admits an older token/],
  ])('finds a trigger that %s', async (name, when, body, found) => {
    const table = name.split(' ')[0]!;
    await target.run(target.open(table).ddl());
    await target.run(`CREATE FUNCTION change_${table}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ${body}; END';
      CREATE TRIGGER changes ${when} ON ${table} FOR EACH ROW EXECUTE FUNCTION change_${table}()`);
    const message = expect.stringMatching(found);
    expect(await target.open(table).check()).toEqual([{ severity: 'error', message }]);
  });

  it('finds that the clock of the process is far from that of the database', async () => {
    await target.run(target.open('late').ddl());
    const fence = postgresFence(database.pool, { table: 'late', maxAge: '1d' });
    expect(await fence.check()).toEqual([]);
    const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() - 2 * 86_400_000);
    try {
      const message = expect.stringMatching(/refuses the first token/);
      expect(await fence.check()).toEqual([{ severity: 'error', message }]);
    } finally {
      clock.mockRestore();
    }
  });
});

describe('in PGlite', () => {
  let lite: PGlite;
  beforeAll(async () => void (lite = await startPglite()));
  afterAll(() => lite.close());
  const target = {
    open: (table: string) => pgliteFence(lite, { table }),
    run: (sql: string) => lite.exec(sql),
  };
  itChecks({ ...target, wrong: IN_POSTGRES });
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
    ['VARBINARY(2500)', 'VARCHAR(700)', /differ in case for one|one row for each key/],
    ['token BIGINT', 'token DOUBLE', /refuses the first token/],
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
  it('finds an engine without transactions through an ORM, which does not see its transaction end', async () => {
    await target.run(
      target
        .open('of_knex')
        .ddl()
        .replace(/2500([^]*)InnoDB ROW_FORMAT = DYNAMIC/, '250$1MyISAM'),
    );
    const client = knexClient({ client: 'mysql2', connection: database.url }, { table: 'of_knex' });
    try {
      const message = expect.stringMatching(/keeps what was rolled back/);
      expect(await client.fence.check()).toEqual([{ severity: 'error', message }]);
    } finally {
      await client.close();
    }
  });

  itChecks({ ...target, wrong });
});

describe('on SQLite', () => {
  const database = new Database(':memory:');
  afterAll(() => void database.close());
  const wrong: Wrong = [
    ['TEXT NOT NULL', 'TEXT COLLATE NOCASE NOT NULL', /differ in case for one/],
    ['TEXT NOT NULL', 'TEXT COLLATE RTRIM NOT NULL', /differ in a blank for one/],
    ['token INTEGER', 'token REAL', /refuses the first token/],
  ];
  itChecks({
    open: (table) => sqliteFence(database, { table }),
    run: (sql) => (sql.startsWith('SELECT') ? database.prepare(sql).all() : database.exec(sql)),
    wrong,
  });
});
