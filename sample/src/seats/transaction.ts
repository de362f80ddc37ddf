import type { Pool, PoolClient } from 'pg';

/**
 * Runs `work` in a transaction and commits it.
 * @throws what `work` throws, after a rollback; an error when the server rolled back instead of committing.
 */
export async function transaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('BEGIN');
    const result = await work(client);
    const { command } = await client.query('COMMIT');
    // PostgreSQL answers COMMIT of a failed transaction with ROLLBACK, without an error.
    if (command !== 'COMMIT') throw new Error('The database rolled the transaction back.');
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch((failure: unknown) => {
      broken = failure instanceof Error ? failure : new Error(String(failure));
    });
    throw error;
  } finally {
    client.release(broken);
  }
}
