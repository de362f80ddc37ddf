import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';

const [, ADD, RAISE, UPDATE] =
  /```sql\n(ALTER TABLE seat [^;]*);\n(UPDATE [^;]*);[^\n]*\n(UPDATE [^;]*);\n```/.exec(
    readFileSync('docs/fencing/recipes.md', 'utf8'),
  )!;
const CREATE = 'CREATE TABLE seat (id varchar(9) PRIMARY KEY, owner varchar(9))';
const INSERT = "INSERT INTO seat (id, owner) VALUES ('12A', 'nobody')";

/** Runs a statement, and says how many rows it changed. */
type Run = (sql: string, parameters: readonly string[]) => Promise<number | null> | number;

/** The same for drivers that number no placeholders. */
const unnumbered =
  (run: Run): Run =>
  (sql, parameters) =>
    run(
      sql.replaceAll(/\$\d/g, '?'),
      Array.from(sql.matchAll(/\$(\d)/g), ([, number]) => parameters[Number(number) - 1]!),
    );

/** Rows that were changed by two holders, of which the newer one raises the number before it reads. */
async function writes(run: Run): Promise<unknown[]> {
  const changed: unknown[] = [];
  for (const [sql, parameters] of [
    [UPDATE!, ['12A', 'ana', '5']],
    [UPDATE!, ['12A', 'ana 2', '5']],
    [RAISE!, ['12A', '7']],
    [UPDATE!, ['12A', 'late', '6']],
    [RAISE!, ['12A', '6']],
    [UPDATE!, ['12A', 'bob', '7']],
    [UPDATE!, ['12A', 'late', '6']],
    [UPDATE!, ['13B', 'bob', '7']],
  ] as const)
    changed.push(await run(sql, parameters));
  return changed;
}

const EXPECTED = [1, 1, 1, 0, 0, 1, 0, 0];

describe('the column form of the documentation refuses an older token', () => {
  const postgres = usePostgres((pool) => pool.query(`${CREATE}; ${INSERT}; ${ADD!}`));
  const mariadb = useMariadb(async (pool) => {
    for (const sql of [CREATE, INSERT, ADD!]) await pool.query(sql);
  });
  const sqlite = new Database(':memory:');
  for (const sql of [CREATE, INSERT, ADD!]) sqlite.exec(sql);
  afterAll(() => void sqlite.close());

  it('on PostgreSQL', async () => {
    const { pool } = postgres;
    const run: Run = async (sql, parameters) => (await pool.query(sql, [...parameters])).rowCount;
    expect(await writes(run)).toEqual(EXPECTED);
    expect((await pool.query('SELECT owner FROM seat')).rows).toEqual([{ owner: 'bob' }]);
  });

  it('on MariaDB', async () => {
    const { pool } = mariadb;
    const run: Run = async (sql, parameters) =>
      ((await pool.query(sql, [...parameters])) as any)[0].affectedRows;
    expect(await writes(unnumbered(run))).toEqual(EXPECTED);
    const [rows] = await pool.query('SELECT owner FROM seat');
    expect(rows).toEqual([{ owner: 'bob' }]);
  });

  it('on SQLite', async () => {
    const run: Run = (sql, parameters) => sqlite.prepare(sql).run(...parameters).changes;
    expect(await writes(unnumbered(run))).toEqual(EXPECTED);
    expect(sqlite.prepare('SELECT owner FROM seat').all()).toEqual([{ owner: 'bob' }]);
  });
});
