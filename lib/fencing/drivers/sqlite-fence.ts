import { fenceError, checkFenceRows } from '../sql/advance-fence.ts';
import { FencedUsageError, type StaleTokenError } from '../../core/errors.ts';
import type {
  Fence,
  FenceEventListener,
  FenceKeys,
  FenceToken,
  FenceTransactionOptions,
  SqlFenceOptions,
} from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceContext } from '../fence-context.ts';
import { FenceReporter, isStaleTokenError } from '../fence-reporter.ts';
import { fenceTable } from '../sql/dialect.ts';
import { renderStatement, type SqlRow } from '../sql/sql-executor.ts';
import { retrying } from '../sql/sql-fence.ts';
import { sqliteFenceSql } from '../sql/sqlite-sql.ts';

/** What the fence needs of a database of `better-sqlite3` or `node:sqlite`. */
export interface SqliteDatabase {
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

class SqliteFence<Database extends SqliteDatabase> implements Fence<Database> {
  private readonly table: string;
  private readonly reporter: FenceReporter;
  private readonly context = new FenceContext();
  /** Settles, never rejects, when the transaction before has ended. */
  private last: Promise<unknown> = Promise.resolve();
  /** The refusal that dooms the open transaction. */
  private refusal: StaleTokenError | undefined;
  private isOpen = false;

  constructor(
    private readonly database: Database,
    options: SqlFenceOptions = {},
  ) {
    this.table = fenceTable(options.table);
    this.reporter = new FenceReporter(options);
  }

  async transaction<Result>(
    token: FenceToken | undefined,
    work: (transaction: Database) => Promise<Result> | Result,
    options: FenceTransactionOptions = {},
  ): Promise<Result> {
    const claims = fenceClaims(token, options.keys);
    refuseSettings(options);
    this.context.refuseNested(claims);
    return this.inTurn(token, claims, 'transaction', work, options.attempts);
  }

  async advance(
    _transaction: Database,
    token: FenceToken | undefined,
    options: FenceKeys = {},
  ): Promise<void> {
    const claims = fenceClaims(token, options.keys);
    const advancing = async () => this.advanceNow(claims);
    if (!this.isOpen) return this.reporter.reporting(token, claims, 'advance', advancing);
    try {
      await advancing();
    } catch (error) {
      // Reported when the transaction has been rolled back.
      if (isStaleTokenError(error)) this.refusal = error;
      throw error;
    }
  }

  async claim(token: FenceToken | undefined, options: FenceKeys = {}): Promise<void> {
    const claims = fenceClaims(token, options.keys);
    if (this.context.covers(claims)) return;
    this.context.refuseNested(claims);
    await this.inTurn(token, claims, 'claim', () => undefined);
  }

  ddl(): string {
    return sqliteFenceSql.ddl(this.table);
  }

  observe(listener: FenceEventListener): () => void {
    return this.reporter.observe(listener);
  }

  /** Another process may hold the file longer than the connection's busy timeout: then the transaction is tried again. */
  private inTurn<Result>(
    token: FenceToken | undefined,
    claims: readonly FenceClaim[],
    operation: 'transaction' | 'claim',
    work: (transaction: Database) => Promise<Result> | Result,
    attempts?: number,
  ): Promise<Result> {
    const attempt = () => this.runOnce(claims, work);
    return this.reporter.reporting(token, claims, operation, () => {
      const turn = this.last.then(() =>
        retrying(this.reporter, claims, attempt, attempts, (count) => RETRY_DELAY_MS * count),
      );
      this.last = turn.catch(() => undefined);
      return turn;
    });
  }

  /** Without an `await` between BEGIN and COMMIT unless the work is asynchronous. */
  private runOnce<Result>(
    claims: readonly FenceClaim[],
    work: (transaction: Database) => Promise<Result> | Result,
  ): Promise<Result> | Result {
    this.refusal = undefined;
    this.database.exec('BEGIN IMMEDIATE');
    this.isOpen = true;
    try {
      this.advanceNow(claims);
      const result = this.context.run(claims, () => work(this.database));
      if (result instanceof Promise) {
        return result.then(
          (value) => this.commit(value),
          (error: unknown) => this.rollback(error),
        );
      }
      return this.commit(result);
    } catch (error) {
      return this.rollback(error);
    }
  }

  private commit<Result>(result: Result): Result {
    if (this.refusal) return this.rollback(this.refusal);
    try {
      this.database.exec('COMMIT');
    } catch (error) {
      return this.rollback(error);
    }
    this.isOpen = false;
    return result;
  }

  private rollback(error: unknown): never {
    // SQLite itself has rolled back after some errors; there is nothing to undo then.
    if (this.isOpen) {
      this.isOpen = false;
      try {
        this.database.exec('ROLLBACK');
      } catch {
        // The error of the work says more.
      }
    }
    throw error;
  }

  private advanceNow(claims: readonly FenceClaim[]): void {
    let rows: readonly SqlRow[] = [];
    try {
      for (const statement of sqliteFenceSql.advance(this.table, claims)) {
        const { sql, parameters } = renderStatement(statement, 'question-mark');
        rows = this.database.prepare(sql).all(...parameters) as SqlRow[];
      }
    } catch (error) {
      throw fenceError(error, 'sqlite', this.table, claims);
    }
    checkFenceRows(rows, claims);
  }
}

function refuseSettings(options: FenceTransactionOptions): void {
  if (
    options.isolationLevel === undefined &&
    options.lockTimeout === undefined &&
    options.idleInTransactionTimeout === undefined
  )
    return;
  throw new FencedUsageError(
    'SQLite has one isolation level (serializable) and no lock timeout per transaction: leave these options out, and set the busy timeout on the connection.',
  );
}
