import { FencedUsageError } from '../core/errors.ts';
import type { IsolationLevel } from './fence.ts';
import type { SqlExecutor } from './sql-executor.ts';

/** What the fence needs of a connection of `pg`. */
export interface PostgresClient {
  query(sql: string, parameters?: any[]): Promise<{ rows: any[]; command?: string }>;
}

/** What the fence needs of a pool of `pg`; it opens and ends no connection by itself. */
export interface PostgresPool extends PostgresClient {
  connect(): Promise<PooledClient>;
}

interface PooledClient extends PostgresClient {
  release(error?: Error | boolean): void;
  on?(event: 'error', listener: (error: Error) => void): unknown;
  removeListener?(event: 'error', listener: (error: Error) => void): unknown;
}

const ISOLATION: Readonly<Record<IsolationLevel, string>> = {
  'read committed': 'BEGIN ISOLATION LEVEL READ COMMITTED',
  'repeatable read': 'BEGIN ISOLATION LEVEL REPEATABLE READ',
  serializable: 'BEGIN ISOLATION LEVEL SERIALIZABLE',
};

/** Commits when `work` resolves; otherwise rolls back, and throws a connection away that can't. */
export async function runPostgresTransaction<Result>(
  pool: PostgresPool,
  work: (client: PostgresClient) => Promise<Result>,
  isolationLevel?: IsolationLevel,
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A session that the server ends while it idles is an event; unheard it would end the process.
  const onError = (error: Error): void => void (broken = error);
  client.on?.('error', onError);
  try {
    await client.query(isolationLevel ? ISOLATION[isolationLevel] : 'BEGIN');
    const result = await work(client);
    await commit(client);
    return result;
  } catch (error) {
    broken = (await rollback(client)) ?? broken;
    throw error;
  } finally {
    client.removeListener?.('error', onError);
    client.release(broken);
  }
}

export function clientExecutor(client: PostgresClient): SqlExecutor {
  return {
    dialect: 'postgresql',
    placeholder: 'numbered',
    query: async (sql, parameters) => (await client.query(sql, [...parameters])).rows,
  };
}

/** PostgreSQL answers COMMIT of a failed transaction with ROLLBACK and no error. */
async function commit(client: PostgresClient): Promise<void> {
  const { command } = await client.query('COMMIT');
  if (command === 'ROLLBACK') {
    throw new FencedUsageError(
      'PostgreSQL rolled the transaction back: one of its statements had failed and the error was swallowed. Nothing was written. Let errors of statements end the transaction, or use savepoints.',
    );
  }
}

/** @returns why the connection can't be used again, undefined when it is clean */
async function rollback(client: PostgresClient): Promise<Error | undefined> {
  try {
    await client.query('ROLLBACK');
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
