import { afterAll, describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import type { Connection } from 'mysql2/promise';
import {
  mysqlFence,
  postgresFence,
  sqliteFence,
  type Fence,
  type FenceToken,
  type SqlDialect,
  type StaleTokenError,
} from '../../lib/fencing/index.ts';
import { advanceStatements, FENCE_SQL } from '../../lib/fencing/sql/dialect.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { blocksOf, readPage } from './pages.ts';

/** The text of a statement, however it is broken into lines, and without what `--` says of it. */
const plain = (sql: string): string =>
  sql.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ').replaceAll(/;? ?$/g, '');

/** The same with the placeholders of drivers that number none. */
const unnumbered = (sql: string): string => plain(sql).replaceAll(/\$\d/g, '?');

const sentTo = (dialect: SqlDialect): string[] => {
  const claims = [{ key: 'statement', token: '7', holder: 'holder-7' }];
  const { statements } = advanceStatements({ dialect, name: TABLE }, claims);
  const sql = FENCE_SQL[dialect];
  return sql.mark ? [...statements, sql.mark, sql.checkMark([])] : [...statements];
};

const sqlOf = (page: string): string[] =>
  blocksOf(readPage(page)).flatMap(({ language, code }) => (language === 'sql' ? [code] : []));
const statementsOf = (block: string): string[] =>
  block
    .split(/;(?=\s|$)/)
    .map(plain)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');

const POSTGRES = sqlOf('docs/fencing/postgresql.md');
const MYSQL = sqlOf('docs/fencing/mysql.md');
const SQLITE = sqlOf('docs/fencing/sqlite.md');
const REPAIR = sqlOf('docs/internals/repair.md');
const [ON_POSTGRES, ON_MYSQL, ON_SQLITE] = sqlOf('docs/internals/fence-sql.md');

const TABLE = 'redlock_fence';
const LATER = { value: 2_000_000_000_000_000, keys: ['seat:12A'], holder: 'future' };
const NOW = { value: 1_795_228_058_941_047, keys: ['seat:12A'], holder: 'today' };
const hex = (text: string): string => Buffer.from(text).toString('hex');

/** Answers that a holder of today hears before and after the repair, when a number from the future keeps it out. */
async function claimsAround(fence: Fence, execute: (sql: string) => unknown): Promise<string[]> {
  const answers: string[] = [];
  const claim = async (token: FenceToken): Promise<void> => {
    const refusal = (error: StaleTokenError) => `refused for '${error.currentHolder}'`;
    answers.push(await fence.claim(token).then(() => 'admitted', refusal));
  };
  const [repair] = REPAIR.map(plain);
  await fence.claim(LATER);
  await claim(NOW);
  await execute(repair!);
  await claim(NOW);
  return answers;
}
const REPAIRED = ["refused for 'future'", 'admitted'];

describe('on PostgreSQL', () => {
  const database = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));

  it.each(['docs/fencing/postgresql.md', 'docs/quick-start.md'])(
    'the table of %s is that of ddl()',
    (page) => {
      const ddl = plain(postgresFence(database.pool).ddl());
      expect(sqlOf(page).flatMap(statementsOf)).toContain(ddl);
    },
  );

  it('the statement of fence-sql.md is the one that the fence sends, and refuses an older token', async () => {
    expect(plain(ON_POSTGRES!)).toBe(plain(sentTo('postgresql')[0]!));
    const advance = (value: number) =>
      database.pool.query(ON_POSTGRES!, ['statement', String(value), `holder-${value}`]);
    const row = { resource: 'statement', token: '7', holder: 'holder-7' };
    expect((await advance(7)).rows).toMatchObject([row]);
    await expect(advance(6)).rejects.toMatchObject({ code: '22P02' });
  });

  it('the settings of postgresql.md are those of the role from then on', async () => {
    const client = await database.pool.connect();
    try {
      // Roles belong to the server, which other tests use, too.
      await client.query('BEGIN; CREATE ROLE app');
      await client.query(POSTGRES[1]!);
      const { rows } = await client.query(
        "SELECT unnest(rolconfig) AS setting FROM pg_roles WHERE rolname = 'app' ORDER BY 1",
      );
      const settings = ['idle_in_transaction_session_timeout=10s', 'lock_timeout=2s'];
      expect(rows.map(({ setting }) => setting)).toEqual(settings);
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  });

  it('the statements of repair.md let holders of today in again', async () => {
    const claims = claimsAround(postgresFence(database.pool), (sql) => database.pool.query(sql));
    expect(await claims).toEqual(REPAIRED);
  });
});

describe('on MariaDB', () => {
  const database = useMariadb(async (pool) => pool.query(mysqlFence(pool).ddl()));

  it('the table of mysql.md is that of ddl()', () => {
    expect(plain(MYSQL[0]!)).toBe(plain(mysqlFence(database.pool).ddl()));
  });

  it('the statements of fence-sql.md are those that the fence sends, and keep the newer token', async () => {
    const [upsert, select, mark, check] = statementsOf(ON_MYSQL!);
    expect([upsert, select, mark, check]).toEqual(sentTo('mysql').map(unnumbered));
    const advance = async (connection: Connection, value: number) => {
      await connection.query(upsert!, [hex('statement'), String(value), hex(`holder-${value}`)]);
      const [rows] = await connection.query(select!, [hex('statement')]);
      return rows;
    };
    const connection = await database.pool.getConnection();
    try {
      await connection.beginTransaction();
      const row = { resource: hex('statement'), token: '7', holder: 'holder-7' };
      expect(await advance(connection, 7)).toMatchObject([row]);
      await connection.query(mark!);
      expect(await advance(connection, 6)).toMatchObject([row]);
      await connection.query(check!);
      await connection.commit();
    } finally {
      connection.release();
    }
  });

  it('the statements of repair.md let holders of today in again', async () => {
    const claims = claimsAround(mysqlFence(database.pool), (sql) => database.pool.query(sql));
    expect(await claims).toEqual(REPAIRED);
  });
});

describe('on SQLite', () => {
  const database = new Database(':memory:');
  afterAll(() => void database.close());
  const [table] = statementsOf(SQLITE[0]!);
  const [begin, advance, mark, check, commit] = statementsOf(ON_SQLITE!);

  it('the table of sqlite.md and the statements of fence-sql.md are those of the fence, and keep the newer token', () => {
    expect(table).toBe(plain(sqliteFence(database).ddl()));
    expect([advance, mark, check]).toEqual(sentTo('sqlite').map(unnumbered));
    database.exec(`${table}; ${begin};`);
    const row = { resource: 'statement', token: '7', holder: 'holder-7' };
    expect(database.prepare(advance!).all('statement', 7, 'holder-7')).toMatchObject([row]);
    database.exec(mark!);
    expect(database.prepare(advance!).all('statement', 6, 'holder-6')).toMatchObject([row]);
    database.exec(`${check}; ${commit};`);
    expect(database.inTransaction).toBe(false);
  });

  it('the statements of repair.md let holders of today in again', async () => {
    database.exec(table!);
    const execute = (sql: string) => database.exec(sql);
    expect(await claimsAround(sqliteFence(database), execute)).toEqual(REPAIRED);
  });
});
