import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

const [, TRIGGER] = /```sql\n(CREATE FUNCTION require_token[^]*?)```/.exec(
  readFileSync('docs/internals/own-fence.md', 'utf8'),
)!;
const SET = "SELECT set_config('app.token', $1, true), set_config('app.holder', $2, true)";

const database = usePostgres((pool) =>
  pool.query(`${postgresFence(pool).ddl()} CREATE TABLE seat (id text PRIMARY KEY, owner text);
    INSERT INTO seat VALUES ('1', 'nobody'), ('2', 'nobody'); ${TRIGGER!}`),
);

it('the trigger of the documentation refuses writes without the token that the fence has', async () => {
  const { pool } = database;
  const fence = postgresFence(pool);
  const token = (value: number) => new FencingToken(value, ['seat:1'], `holder-${value}`);
  const write = (by: FencingToken, said: FencingToken | undefined, id = '1') =>
    fence.transaction(by, async (tx) => {
      if (said) await tx.query(SET, [String(said), said.holder]);
      await tx.query('UPDATE seat SET owner = $2 WHERE id = $1', [id, String(by)]);
    });
  await write(token(5), token(5));
  const stale = { code: 'RLF01' };
  const missing = { code: 'RLF02' };
  await expect(write(token(6), token(5))).rejects.toMatchObject(stale);
  await expect(write(token(6), token(6), '2')).rejects.toMatchObject(stale);
  // Writes on a connection that had one, and on one that had none.
  for (const _ of [1, 2]) await expect(write(token(6), undefined)).rejects.toMatchObject(missing);
  await expect(pool.query("UPDATE seat SET owner = 'x'")).rejects.toMatchObject(missing);
  for (const all of ['DELETE FROM seat', 'TRUNCATE seat'])
    await expect(pool.query(all)).rejects.toMatchObject(missing);
  // The token of one seat is none for another: it can't become that one, nor be deleted as it.
  const change = (sql: string, by: FencingToken) =>
    fence.transaction(by, async (tx) => {
      await tx.query(SET, [String(by), by.holder]);
      return (await tx.query(sql)).rowCount;
    });
  const of2 = new FencingToken(7, ['seat:2'], 'holder-7');
  await expect(change("UPDATE seat SET id = '1' WHERE id = '2'", of2)).rejects.toMatchObject(stale);
  await expect(change("UPDATE seat SET id = '3' WHERE id = '2'", of2)).rejects.toMatchObject(stale);
  await expect(change("DELETE FROM seat WHERE id = '1'", of2)).rejects.toMatchObject(stale);
  const { rows } = await pool.query('SELECT owner FROM seat ORDER BY id');
  expect(rows).toEqual([{ owner: '5' }, { owner: 'nobody' }]);
  await expect(change("DELETE FROM seat WHERE id = '2'", of2)).resolves.toBe(1);
  await expect(change("INSERT INTO seat VALUES ('2', 'ana')", of2)).resolves.toBe(1);
});
