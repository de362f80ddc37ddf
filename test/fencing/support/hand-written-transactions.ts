import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Pool as MysqlPool, PoolConnection } from 'mysql2/promise';
import type { Pool, PoolClient } from 'pg';

/** A transaction as users write it by hand. */
export async function inPostgres(
  pool: Pool,
  work: (client: PoolClient) => Promise<unknown>,
  begin = 'BEGIN',
): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query(begin);
    await work(client);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined); // the first error says why
    throw error;
  } finally {
    client.release();
  }
}

/** Resolves once a session of the database waits for the lock of another one. */
export async function lockIsAwaited(pool: Pool): Promise<void> {
  const waiting = 'SELECT 1 FROM pg_locks WHERE NOT granted';
  while ((await pool.query(waiting)).rows.length === 0) await nextTurn();
}

/** A hand-written transaction on MariaDB. */
export async function inMariadb(
  pool: MysqlPool,
  work: (connection: PoolConnection) => Promise<unknown>,
): Promise<void> {
  const connection = await pool.getConnection();
  try {
    await connection.beginTransaction();
    await work(connection);
    await connection.commit();
  } catch (error) {
    await connection.rollback().catch(() => undefined);
    throw error;
  } finally {
    connection.release();
  }
}
