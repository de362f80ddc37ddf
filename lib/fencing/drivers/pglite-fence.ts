import { checkFenceArguments } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import type { SqlExecutor } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of a transaction of PGlite that the fence uses. */
export interface PgliteTransaction {
  readonly closed?: boolean;
  query(sql: string, parameters?: any[]): Promise<{ rows: any[] }>;
}

/** The part of PGlite that the fence uses. */
export interface Pglite<Transaction extends PgliteTransaction> extends PgliteTransaction {
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result>;
  /** Only locks in the database need it: see `postgresNode`. */
  listen?(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>;
}

/**
 * The fence in a PGlite database (PostgreSQL in the process): the same SQL as PostgreSQL.
 *
 * @example
 * ```ts
 * import { PGlite } from '@electric-sql/pglite';
 * import { pgliteFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = pgliteFence(new PGlite());
 * await fence.transaction(token, (tx) => tx.query('UPDATE seat SET customer = $2 WHERE id = $1', ['12A', 'ana']));
 * ```
 */
export function pgliteFence<Transaction extends PgliteTransaction = PgliteTransaction>(
  database: Pglite<Transaction>,
  options?: SqlFenceOptions,
): Fence<Transaction> {
  const needs = 'a PGlite: new PGlite()';
  checkFenceArguments('pgliteFence', database, ['transaction', 'query'], needs, options);
  const executor = (client: PgliteTransaction): SqlExecutor => ({
    placeholder: 'numbered',
    query: async (sql, parameters) => (await client.query(sql, [...parameters])).rows,
  });
  return new SqlFence<Transaction>(
    {
      dialect: 'postgresql',
      database,
      executor,
      autocommit: executor(database),
      onlyConnection: database,
      isTransaction: (transaction) => transaction.closed === false && 'rollback' in transaction,
      run: (work, isolationLevel) =>
        database.transaction(async (transaction) => {
          const level = isolationLevel?.toUpperCase();
          if (level) await transaction.query(`SET TRANSACTION ISOLATION LEVEL ${level}`);
          return work(transaction);
        }),
    },
    options,
  );
}
