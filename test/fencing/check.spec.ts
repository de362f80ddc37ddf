import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import pg from 'pg';
import { mysqlFence, pgliteFence, postgresFence, sqliteFence } from '../../lib/fencing/index.ts';
import type { Fence } from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';

/** Where the tables of these tests are made. */
interface Target {
  readonly open: (table: string) => Fence;
  readonly run: (sql: string) => unknown;
  /** Changes of the text of `ddl`, and what is found then. */
  readonly wrong: readonly (readonly [from: string | RegExp, to: string, found: RegExp])[];
}

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
}

const IN_POSTGRES: Target['wrong'] = [
  ['CREATE TABLE', 'CREATE UNLOGGED TABLE', /a crash of the server empties it/],
  ['resource text COLLATE "C"', 'resource char(40)', /resource has the type character\(40\)/],
  [
    'token bigint NOT NULL CHECK',
    'token double precision NOT NULL CHECK',
    /token has the type double precision/,
  ],
  ['token bigint', 'token integer', /token has the type integer/],
  ["holder text NOT NULL DEFAULT ''", 'owner text', /has no column holder/],
  ['token bigint', 'token numeric(20, 2)', /token has the type numeric\(20,2\)/],
  [' PRIMARY KEY', '', /resource must be the primary key, alone/],
  [
    / PRIMARY KEY([^]*)''\n\)/,
    "$1'', PRIMARY KEY (resource, holder))",
    /resource must be the primary key, alone/,
  ],
  [
    /CREATE TABLE IF NOT EXISTS (\S+)[^]*/,
    "CREATE VIEW $1 AS SELECT text 'a' AS resource, bigint '1' AS token, text '' AS holder",
    /no ordinary table/,
  ],
  [/WITH \(fillfactor[^]*/, 'PARTITION BY HASH (resource)', /no ordinary table/],
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
  const collation = ['"C"', 'loose', /takes different keys for one/] as const;
  itChecks({ ...target, wrong: [...IN_POSTGRES, collation] });

  it('finds a table in its schema, and takes no table of another one for it', async () => {
    const [fence, other] = [target.open('app.seats_fence'), target.open('seats_fence')];
    await target.run(fence.ddl());
    expect([await fence.check(), (await other.check()).length]).toEqual([[], 1]);
  });

  it('warns of a user who may not write to it, with the statement that helps', async () => {
    const { pool } = database;
    await target.run(target.open('granted').ddl());
    await target.run('CREATE ROLE reader; GRANT SELECT ON granted TO reader');
    const own = new pg.Pool({ connectionString: database.url, max: 1 });
    try {
      await own.query('SET ROLE reader');
      const fence = postgresFence(own, { table: 'granted' });
      const [finding, ...others] = await fence.check();
      expect([finding?.severity, others]).toEqual(['warning', []]);
      const [grant] = /GRANT SELECT, INSERT, UPDATE ON granted TO reader/.exec(finding!.message)!;
      await pool.query(grant);
      expect(await fence.check()).toEqual([]);
      await fence.claim({ value: 7, keys: ['seat'], holder: 'a' });
    } finally {
      await own.end();
    }
  });

  it('finds a table whose rows a policy can hide from the user', async () => {
    await target.run(target.open('secured').ddl());
    await target.run(`ALTER TABLE secured ENABLE ROW LEVEL SECURITY; CREATE ROLE tenant;
      GRANT SELECT, INSERT, UPDATE ON secured TO tenant;
      CREATE POLICY reads ON secured FOR SELECT USING (true);
      CREATE POLICY inserts ON secured FOR INSERT WITH CHECK (true);
      CREATE POLICY updates ON secured FOR UPDATE USING (resource <> 'seat')`);
    expect(await target.open('secured').check()).toEqual([]);
    const own = new pg.Pool({ connectionString: database.url, max: 1 });
    try {
      await own.query('SET ROLE tenant');
      const fence = postgresFence(own, { table: 'secured' });
      const message = expect.stringMatching(/row-level security applies to this user/);
      expect(await fence.check()).toEqual([{ severity: 'error', message }]);
    } finally {
      await own.end();
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
  const wrong: Target['wrong'] = [
    [/2500([^]*)InnoDB ROW_FORMAT = DYNAMIC/, '250$1MyISAM', /engine MyISAM has no transactions/],
    ['VARBINARY(2500)', 'VARCHAR(700)', /resource has the type varchar\(700\)/],
    ['VARBINARY(255)', 'CHAR(255)', /holder has the type char\(255\)/],
    ['token BIGINT', 'token DOUBLE', /token has the type double/],
    [' PRIMARY KEY', '', /resource must be the primary key, alone/],
    [
      /NOT NULL PRIMARY KEY([^]*)''\n\)/,
      "NOT NULL$1'', PRIMARY KEY (resource, token))",
      /resource must be the primary key, alone/,
    ],
    [
      /2500\) NOT NULL PRIMARY KEY([^]*)''\n\)/,
      "250) NOT NULL$1'', id BIGINT AUTO_INCREMENT, KEY (id), PRIMARY KEY (resource, id))",
      /resource must be the primary key, alone/,
    ],
    [
      /NOT NULL PRIMARY KEY([^]*)''\n\)/,
      "NOT NULL$1'', PRIMARY KEY (resource(3)))",
      /resource must be the primary key, alone/,
    ],
  ];
  itChecks({ ...target, wrong });

  it.each([
    ['resource', '2500', '10'],
    ['holder', '255', '8'],
  ])('warns of a column that cuts what is longer: %s', async (column, from, to) => {
    const fence = target.open(`short_${column}`);
    await target.run(fence.ddl().replace(`(${from})`, `(${to})`));
    const message = expect.stringContaining(`The column ${column} of the fence table`);
    expect(await fence.check()).toEqual([{ severity: 'warning', message }]);
  });
});

describe('on SQLite', () => {
  const database = new Database(':memory:');
  afterAll(() => void database.close());
  const wrong: Target['wrong'] = [
    ['TEXT NOT NULL', 'TEXT COLLATE NOCASE NOT NULL', /takes different keys for one/],
    ['TEXT NOT NULL', 'TEXT COLLATE  "nocase" NOT NULL', /takes different keys for one/],
    [/ PRIMARY KEY([^]*) WITHOUT ROWID/, '$1', /resource must be the primary key, alone/],
    ['token INTEGER', 'token REAL', /token has the type real/],
    ['resource TEXT', 'resource', /resource has the type/],
    [
      /CREATE TABLE IF NOT EXISTS (\S+)[^]*/,
      "CREATE VIEW $1 AS SELECT 'a' AS resource, 1 AS token, '' AS holder",
      /it is a view/,
    ],
  ];
  itChecks({
    open: (table) => sqliteFence(database, { table }),
    run: (sql) => database.exec(sql),
    wrong,
  });

  it.each([
    ["resource TEXT /* not 'COLLATE NOCASE' */ NOT NULL PRIMARY KEY", ''],
    ['id INTEGER PRIMARY KEY, resource TEXT NOT NULL UNIQUE', ' WITHOUT ROWID'],
    ['resource NVARCHAR(200) NOT NULL PRIMARY KEY', ''],
  ])('finds nothing wrong with %p', async (column, without) => {
    const fence = sqliteFence(database, { table: 'of_others' });
    database.exec('DROP TABLE IF EXISTS of_others');
    const ddl = fence.ddl().replace('resource TEXT NOT NULL PRIMARY KEY', column);
    database.exec(ddl.replace(without, ''));
    expect(await fence.check()).toEqual([]);
  });
});
