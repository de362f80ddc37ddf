import { describe, expect, it } from '@jest/globals';
import type { RowDataPacket } from 'mysql2/promise';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { inMariadb, inPostgres } from './support/hand-written-transactions.ts';

// The campaign counts refusals by what callers get: a rollback on a dead connection must not replace it.
describe('a hand-written transaction of the tests whose connection dies after a refusal', () => {
  const postgres = usePostgres(async () => undefined);
  const mariadb = useMariadb(async () => undefined);
  const refusal = new Error('refused');

  it('fails with the refusal on PostgreSQL', async () => {
    const transaction = inPostgres(postgres.pool, async (client) => {
      client.on('error', () => undefined);
      const { rows } = await client.query('SELECT pg_backend_pid() AS id');
      await postgres.pool.query('SELECT pg_terminate_backend($1, 10000)', [rows[0].id]);
      throw refusal;
    });
    await expect(transaction).rejects.toBe(refusal);
  });

  it('fails with the refusal on MariaDB', async () => {
    const transaction = inMariadb(mariadb.pool, async (connection) => {
      const [rows] = await connection.query<RowDataPacket[]>('SELECT connection_id() AS id');
      await mariadb.pool.query(`KILL ${rows[0]!['id']}`);
      throw refusal;
    });
    await expect(transaction).rejects.toBe(refusal);
  });
});
