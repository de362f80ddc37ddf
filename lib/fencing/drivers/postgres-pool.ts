import { createHash } from 'node:crypto';
import { FencedUsageError } from '../../core/errors.ts';
import { hasMethods, refuseClient } from '../fence-arguments.ts';
import type { IsolationLevel } from '../fence.ts';
import { outsideWork } from '../fence-context.ts';
import { outsideTransaction, refuseEnded } from '../sql/advance-fence.ts';
import { FAILS_OUTSIDE } from '../sql/postgres-sql.ts';
import type { CommitCheck, SqlExecutor, SqlRow } from '../sql/sql-executor.ts';
import { isUsedUp, warnOfWait } from './watch-pool.ts';

/** The part of a connection of `pg` that the fence uses. */
export interface PostgresClient {
  query(sql: string, parameters?: any[]): Promise<{ rows: any[] }>;
  /** Runs a statement, as a prepared one when it has a name. */
  query(statement: { name?: string; text: string; values: any[] }): Promise<{ rows: any[] }>;
  /** The status in the last answer; only newer versions of `pg` tell. */
  getTransactionStatus?(): string | null;
}

/** The part of a pool of `pg` that the fence uses; it opens and ends no connection by itself. */
export interface PostgresPool extends PostgresClient {
  connect(): Promise<PooledClient>;
  on?(event: 'acquire', listener: () => void): unknown;
}

export interface PooledClient extends PostgresClient {
  release(error?: Error | boolean): void;
  on?(event: 'error', listener: (error: Error) => void): unknown;
  removeListener?(event: 'error', listener: (error: Error) => void): unknown;
}

/** @throws RedlockConfigError when it is no pool */
export function checkPostgresPool(factory: string, pool: PostgresPool): void {
  const needs = 'a Pool of pg: new Pool({ connectionString })';
  // A single client would be closed with the first transaction.
  const isPool = hasMethods(pool, ['connect', 'query']) && !('connectionParameters' in pool);
  if (!isPool) refuseClient(factory, pool, needs);
}

/** Commits when `work` resolves; otherwise rolls back, and throws a connection away that can't. */
export function runPostgresTransaction<Result>(
  pool: PostgresPool,
  work: (client: PostgresClient) => Promise<Result>,
  isolationLevel?: IsolationLevel,
  commit: CommitCheck = {},
): Promise<Result> {
  return withClient(pool, async (client) => {
    const level = isolationLevel ? ` ISOLATION LEVEL ${isolationLevel.toUpperCase()}` : '';
    await client.query(`BEGIN${level}`);
    const result = await work(client);
    const check = commit.check ? `${commit.check}; ` : '';
    // Without the check, the COMMIT of a failed transaction would be answered with ROLLBACK, which is no error.
    await client.query(`${check}COMMIT`).catch(refuseEnded);
    return result;
  });
}

/** When `pg` believes that a statement is prepared which is not there, or can't be used, it does so as long as the connection lives. */
const LOST_STATEMENT = /^(26000|0A000)$/;

/**
 * Lends a client of the pool, without the transaction that an earlier user of it may have left open.
 *
 * @param isGivenUp whether an answer on it is still due when `use` rejects: then it is thrown away, and asked nothing more
 * @param patient rejects when a client takes too long for which nobody else has to give one back
 */
export async function withClient<Result>(
  pool: PostgresPool,
  use: (client: PostgresClient) => Promise<Result>,
  isGivenUp: () => boolean = () => false,
  patient = (connecting: Promise<PooledClient>): Promise<PooledClient> => connecting,
): Promise<Result> {
  const connecting = outsideWork(() => pool.connect());
  const isInLine = isUsedUp(pool);
  if (isInLine) warnOfWait(pool);
  const client = await (isInLine ? connecting : patient(connecting));
  let broken: Error | undefined;
  // A session that the server ends while it idles is an event; without a listener it would end the process.
  const onError = (error: Error): void => void (broken ??= error);
  client.on?.('error', onError);
  const isOpen = (): boolean => /[TE]/.test(client.getTransactionStatus?.() ?? '');
  try {
    if (isOpen()) await client.query('ROLLBACK');
    const result = await use(client);
    if (!isOpen()) return result;
    throw new FencedUsageError(
      'Nothing was committed: an earlier user of the pooled connection had begun a transaction without waiting for it. Release a client when its queries are answered and its transaction has ended.',
    );
  } catch (error) {
    // The driver says only that the connection can't be used.
    if (broken !== undefined && broken !== error && error instanceof Error) error.cause ??= broken;
    try {
      if (isGivenUp()) throw error;
      await client.query('ROLLBACK');
      if (LOST_STATEMENT.test(String((error as { code?: unknown }).code))) throw error;
    } catch (failure) {
      broken = failure instanceof Error ? failure : new Error(String(failure));
    }
    throw error;
  } finally {
    client.removeListener?.('error', onError);
    try {
      client.release(broken);
    } catch {
      // The work has released it. Its outcome says more.
    }
  }
}

/** Asks PostgreSQL only where the client doesn't know: an old one, a pool, a BEGIN that is still on its way. */
export async function isInPostgresTransaction(client: PostgresClient): Promise<boolean> {
  if (!hasMethods(client, ['query'])) return false;
  const status = client.getTransactionStatus?.();
  if (status === 'T' || status === 'E') return true;
  try {
    await client.query(FAILS_OUTSIDE);
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === '25P01') return false;
    throw error;
  }
}

/**
 * @param lend runs its argument with a client
 * @param isPrepared whether statements with parameters are prepared, once per connection
 * @param isInside whether to refuse what ran outside of a transaction, such as after a COMMIT that was not awaited
 */
export function postgresExecutor(
  lend: (use: (client: PostgresClient) => Promise<readonly SqlRow[]>) => Promise<readonly SqlRow[]>,
  isPrepared: boolean,
  isInside: boolean,
): SqlExecutor {
  const query: SqlExecutor['query'] = (text, values) =>
    lend(async (client) => {
      // The text of a setting has its number in it: there would be many of them, and nothing to plan.
      const name = isPrepared && values.length > 0 ? statementName(text) : undefined;
      // A text in the simple protocol could hold several statements, and end the transaction between them.
      const statement = { ...(name && { name }), text, values: [...values], queryMode: 'extended' };
      const { rows } = await client.query(statement);
      if (isInside && client.getTransactionStatus?.() === 'I') throw outsideTransaction([]);
      return rows;
    });
  return { placeholder: 'numbered', query };
}

/** A name for each text. It has 57 characters; PostgreSQL cuts names at 63. */
function statementName(sql: string): string {
  return `redlock_fence_${createHash('sha256').update(sql).digest('base64url')}`;
}
