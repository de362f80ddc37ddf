import type { IsolationLevel } from '../fence.ts';
import type { SqlDialect, SqlExecutor } from './sql-executor.ts';

/** What one driver or ORM does differently. */
export interface SqlFenceAdapter<Transaction> {
  readonly dialect: SqlDialect;
  /** The driver's transaction as the fence sees it. */
  executor(transaction: Transaction): SqlExecutor;
  /**
   * Runs `work` in a new transaction on a connection of its own (not a savepoint of an open one): commits when it resolves,
   * rolls back when it rejects, and rejects with the same error.
   */
  run<Result>(
    work: (transaction: Transaction) => Promise<Result>,
    isolationLevel: IsolationLevel | undefined,
  ): Promise<Result>;
  /** Outside any transaction, for statements that are one by themselves. Absent: a claim opens a transaction. */
  readonly autocommit?: SqlExecutor;
}
