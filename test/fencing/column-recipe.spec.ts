import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from '@jest/globals';
import Database from 'libsql';
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

const postgres = usePostgres((pool) => pool.query(`${CREATE}; ${INSERT}; ${ADD!}`));
const mariadb = useMariadb(async (pool) => {
  for (const sql of [CREATE, INSERT, ADD!]) await pool.query(sql);
});
const sqlite = new Database(':memory:');
for (const sql of [CREATE, INSERT, ADD!]) sqlite.exec(sql);
afterAll(() => void sqlite.close());

const RUNS: Readonly<Record<string, Run>> = {
  PostgreSQL: async (sql, parameters) => (await postgres.pool.query(sql, [...parameters])).rowCount,
  MariaDB: unnumbered(
    async (sql, parameters) =>
      ((await mariadb.pool.query(sql, [...parameters])) as any)[0].affectedRows,
  ),
  SQLite: unnumbered((sql, parameters) => sqlite.prepare(sql).run(...parameters).changes),
};

it.each(Object.keys(RUNS))(
  'the column form of the documentation refuses an older token on %s',
  async (name) => {
    expect(await writes(RUNS[name]!)).toEqual(EXPECTED);
  },
);
