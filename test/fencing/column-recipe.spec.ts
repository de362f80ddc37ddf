import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';

const [, ADD, UPDATE] = /```sql\n(ALTER TABLE seat [^;]*);\n(UPDATE [^;]*);\n```/.exec(
  readFileSync('docs/fencing/recipes.md', 'utf8'),
)!;
const CREATE = 'CREATE TABLE seat (id varchar(9) PRIMARY KEY, owner varchar(9))';
const INSERT = "INSERT INTO seat (id, owner) VALUES ('12A', 'nobody')";

/** The statement with the placeholders of drivers that number none, and its parameters in that order. */
const QUESTIONS = UPDATE!.replaceAll(/\$\d/g, '?');

type Write = (id: string, owner: string, token: string) => Promise<number | null> | number;

/** Writes of a newer holder and of an older one, as rows that were changed. */
async function writes(write: Write): Promise<unknown[]> {
  const changed: unknown[] = [];
  for (const [owner, token] of [
    ['ana', '5'],
    ['ana 2', '5'],
    ['bob', '7'],
    ['late', '6'],
  ] as const)
    changed.push(await write('12A', owner, token));
  changed.push(await write('13B', 'bob', '7'));
  return changed;
}

const EXPECTED = [1, 1, 1, 0, 0];

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
    const changed = await writes(
      async (...parameters) => (await pool.query(UPDATE!, parameters)).rowCount,
    );
    expect(changed).toEqual(EXPECTED);
    expect((await pool.query('SELECT owner FROM seat')).rows).toEqual([{ owner: 'bob' }]);
  });

  it('on MariaDB', async () => {
    const { pool } = mariadb;
    const changed = await writes(async (id, owner, token) => {
      const [{ affectedRows }] = (await pool.query(QUESTIONS, [owner, token, id, token])) as any;
      return affectedRows;
    });
    expect(changed).toEqual(EXPECTED);
    const [rows] = await pool.query('SELECT owner FROM seat');
    expect(rows).toEqual([{ owner: 'bob' }]);
  });

  it('on SQLite', async () => {
    const update = sqlite.prepare(QUESTIONS);
    const changed = await writes(
      (id, owner, token) => update.run(owner, BigInt(token), id, BigInt(token)).changes,
    );
    expect(changed).toEqual(EXPECTED);
    expect(sqlite.prepare('SELECT owner FROM seat').all()).toEqual([{ owner: 'bob' }]);
  });
});
