import { FencedUsageError } from '../../core/errors.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import type { FenceClaim } from '../fence-claim.ts';
import { checkFenceRows, fenceError } from '../sql/advance-fence.ts';
import { advanceStatements } from '../sql/dialect.ts';
import { renderStatement, type SqlRow } from '../sql/sql-executor.ts';
import { TableFence, type FenceCall } from '../sql/table-fence.ts';

/** What the fence needs of a database of `better-sqlite3` or `node:sqlite`. */
export interface SqliteDatabase {
  /** Of better-sqlite3. */
  readonly inTransaction?: boolean;
  /** Of node:sqlite, from Node.js 22.16. */
  readonly isTransaction?: boolean;
  prepare(sql: string): { all(...parameters: any[]): any[] };
  exec(sql: string): unknown;
}

const RETRY_DELAY_MS = 20;

/**
 * The fence in an SQLite file, through `better-sqlite3` or `node:sqlite`. Transactions begin with BEGIN IMMEDIATE.
 *
 * A connection has one transaction at a time: calls of this fence wait for each other. With synchronous `work` nothing can come in
 * between; with asynchronous `work`, statements that other code runs on the same connection meanwhile belong to the transaction,
 * so give the fence a connection of its own.
 */
export function sqliteFence<Database extends SqliteDatabase>(
  database: Database,
  options?: SqlFenceOptions,
): Fence<Database> {
  return new SqliteFence(database, options);
}

class SqliteFence<Database extends SqliteDatabase> extends TableFence<Database> {
  /** Settles, never rejects, when the transaction before has ended. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly database: Database,
    options?: SqlFenceOptions,
  ) {
    super(
      {
        dialect: 'sqlite',
        executor: (transaction) => ({
          dialect: 'sqlite',
          placeholder: 'question-mark',
          query: async (sql, parameters) => transaction.prepare(sql).all(...parameters),
        }),
        isTransaction: isInSqliteTransaction,
      },
      options,
    );
  }

  /** Another process may hold the file longer than the connection's busy timeout: then the transaction is tried again. */
  protected override retrying<Result>(
    claims: readonly FenceClaim[],
    attempt: () => Promise<Result> | Result,
    limit?: number,
  ): Promise<Result> {
    const turn = this.last.then(() =>
      super.retrying(claims, attempt, limit, (count) => RETRY_DELAY_MS * count),
    );
    this.last = turn.catch(() => undefined);
    return turn;
  }

  /** Without an `await` between BEGIN and COMMIT unless the work is asynchronous. */
  protected override attempt<Result>(call: FenceCall<Database, Result>): Promise<Result> | Result {
    const { database } = this;
    const { claims, work, options = {} } = call;
    const { isolationLevel, lockTimeout, idleInTransactionTimeout } = options;
    if ((isolationLevel ?? lockTimeout ?? idleInTransactionTimeout) !== undefined) {
      throw new FencedUsageError(
        'SQLite has one isolation level (serializable) and no lock timeout per transaction: leave these options out, and set the busy timeout on the connection.',
      );
    }
    const commit = (result: Result): Result => {
      if (call.refusal) throw call.refusal;
      database.exec('COMMIT');
      this.calls.delete(database);
      return result;
    };
    const rollback = (error: unknown): never => {
      this.calls.delete(database);
      try {
        database.exec('ROLLBACK');
      } catch {
        // SQLite itself has rolled back after some errors. The error of the work says more.
      }
      throw error;
    };
    delete call.refusal;
    database.exec('BEGIN IMMEDIATE');
    this.calls.set(database, call);
    try {
      this.advanceNow(claims);
      const result = this.context.run(claims, () => work(database));
      return result instanceof Promise ? result.then(commit).catch(rollback) : commit(result);
    } catch (error) {
      return rollback(error);
    }
  }

  private advanceNow(claims: readonly FenceClaim[]): void {
    let rows: readonly SqlRow[] = [];
    try {
      for (const statement of advanceStatements('sqlite', this.table, claims)) {
        const { sql, parameters } = renderStatement(statement, 'question-mark');
        rows = this.database.prepare(sql).all(...parameters);
      }
    } catch (error) {
      throw fenceError(error, 'sqlite', this.table, claims);
    }
    checkFenceRows(rows, claims);
  }
}

function isInSqliteTransaction(database: SqliteDatabase): boolean {
  const known = database.inTransaction ?? database.isTransaction;
  if (known !== undefined) return known;
  try {
    database.exec('BEGIN');
  } catch {
    // A transaction in a transaction is refused.
    return true;
  }
  database.exec('ROLLBACK');
  return false;
}
