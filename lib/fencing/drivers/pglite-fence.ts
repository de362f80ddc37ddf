import type { PostgresFence } from './postgres-fence.ts';
import { StatementFence } from './postgres-fence.ts';
import type { SqlFenceOptions } from '../fence.ts';
import type { SqlExecutor } from '../sql/sql-executor.ts';

/** What the fence needs of a transaction of PGlite. */
export interface PgliteTransaction {
  query(sql: string, parameters?: any[]): Promise<{ rows: any[] }>;
}

/** What the fence needs of PGlite. */
export interface Pglite<Transaction extends PgliteTransaction> extends PgliteTransaction {
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result>;
}

/** The fence in a PGlite database (PostgreSQL in the process): the same SQL as PostgreSQL. */
export function pgliteFence<Transaction extends PgliteTransaction = PgliteTransaction>(
  database: Pglite<Transaction>,
  options?: SqlFenceOptions,
): PostgresFence<Transaction> {
  return new StatementFence<Transaction>(
    {
      dialect: 'postgresql',
      executor,
      autocommit: executor(database),
      run: (work, isolationLevel) =>
        database.transaction(async (transaction) => {
          if (isolationLevel)
            await transaction.query(
              `SET TRANSACTION ISOLATION LEVEL ${isolationLevel.toUpperCase()}`,
            );
          return work(transaction);
        }),
    },
    options,
  );
}

function executor(transaction: PgliteTransaction): SqlExecutor {
  return {
    dialect: 'postgresql',
    placeholder: 'numbered',
    query: async (sql, parameters) => (await transaction.query(sql, [...parameters])).rows,
  };
}
