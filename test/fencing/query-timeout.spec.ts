import { expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

const database = usePostgres((pool) =>
  pool.query(`${postgresFence(pool).ddl()} CREATE TABLE note (text text)`),
);

it('leaves no transaction open for the next user where the query_timeout of the pool ends one', async () => {
  const { pool, url } = database;
  const limited = new pg.Pool({ connectionString: url, max: 1, query_timeout: 1_000 });
  const other = await pool.connect();
  await other.query('SELECT pg_advisory_lock(1)');
  try {
    const token = { value: 1, keys: ['note'], holder: 'h' };
    // The driver gives up; PostgreSQL goes on with the statement, and would take a ROLLBACK only after it.
    const late = postgresFence(limited).transaction(token, async (tx) => {
      await tx.query("INSERT INTO note VALUES ('late')");
      await tx.query('SELECT pg_advisory_xact_lock(1)');
    });
    await expect(late).rejects.toThrow('Query read timeout');
    await limited.query("INSERT INTO note VALUES ('next')");
    const { rows } = await pool.query('SELECT text FROM note');
    expect(rows).toEqual([{ text: 'next' }]);
  } finally {
    other.release(true);
    await limited.end();
  }
});
