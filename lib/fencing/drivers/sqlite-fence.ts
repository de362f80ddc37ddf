import { FencedUsageError } from '../../core/errors.ts';
import { keysOf } from '../call-options.ts';
import { checkFenceArguments } from '../fence-arguments.ts';
import type { Fence, FenceKeys, FenceToken, SqlFenceOptions } from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { isStaleTokenError } from '../fence-reporter.ts';
import {
  checkFenceRows,
  checkTransaction,
  fenceError,
  outsideTransaction,
  refuseEnded,
} from '../sql/advance-fence.ts';
import { advanceStatements } from '../sql/dialect.ts';
import type { SqlRow } from '../sql/sql-executor.ts';
import { runStepsNow, type SqlSteps } from '../sql/sql-steps.ts';
import { sqliteFenceSql } from '../sql/sqlite-sql.ts';
import { openCalls, TableFence, type FenceCall } from '../sql/table-fence.ts';
import {
  beginWhenFree,
  FileBusyError,
  isInSqliteTransaction,
  runNow,
  type SqliteDatabase,
} from './sqlite-connection.ts';

export type { SqliteDatabase } from './sqlite-connection.ts';

/** The fence in an SQLite file, whose transactions may be synchronous. */
export interface SqliteFence<Database> extends Fence<Database> {
  /**
   * As on other databases, but it does its work before it returns, on the connection it is given, and what it refuses is thrown
   * at once: a synchronous transaction that did not wait for a promise would have committed the stale write. With `await` in an
   * asynchronous function that is the same as a rejection; `.catch()` on the call does not see it. `onStale` runs afterwards, and
   * is not awaited.
   *
   * @throws StaleTokenError, FencedUsageError
   */
  advance(database: Database, token: FenceToken | undefined, options?: FenceKeys): Promise<void>;

  /**
   * `advance` for a synchronous transaction of your own, such as `database.transaction(() => …)` of better-sqlite3. It throws
   * before the transaction goes on; `onStale` runs afterwards.
   *
   * @throws StaleTokenError, FencedUsageError
   */
  advanceSync(database: Database, token: FenceToken | undefined, options?: FenceKeys): void;
}

const RETRY_DELAY_MS = 20;

/** By connection: settles, never rejects, when the transaction before has ended. */
const lastTurns = new WeakMap<object, Promise<unknown>>();

/**
 * The fence in an SQLite file, through `better-sqlite3` or `node:sqlite`. Transactions begin with BEGIN IMMEDIATE.
 *
 * A connection has one transaction at a time: calls of its fences wait for each other. With synchronous `work` nothing can come in
 * between; with asynchronous `work`, statements that other code runs on the same connection meanwhile belong to the transaction,
 * so give the fence a connection of its own. While a transaction is open there that the fence did not begin, its calls but
 * `advance` reject with a FencedUsageError.
 *
 * While another connection writes to the file, it waits to begin without blocking the process: for the busy timeout of its
 * connection, and at least 5 s. Then it rejects with the code of the driver (`SQLITE_BUSY` of better-sqlite3) and its error as
 * `cause`.
 *
 * @example
 * ```ts
 * import Database from 'better-sqlite3';
 * import { sqliteFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = sqliteFence(new Database('shop.db'));
 * await fence.transaction(token, (database) =>
 *   database.prepare('UPDATE seat SET customer = ? WHERE id = ?').run('ana', '12A'),
 * );
 * ```
 */
export function sqliteFence<Database extends SqliteDatabase>(
  database: Database,
  options?: SqlFenceOptions,
): SqliteFence<Database> {
  const needs = 'a database of better-sqlite3 or node:sqlite';
  checkFenceArguments('sqliteFence', database, ['prepare', 'exec'], needs, options);
  return new SqliteTableFence(database, options);
}

class SqliteTableFence<Database extends SqliteDatabase>
  extends TableFence<Database>
  implements SqliteFence<Database>
{
  constructor(
    private readonly database: Database,
    options?: SqlFenceOptions,
  ) {
    super({ dialect: 'sqlite', database, onlyConnection: database }, options);
  }

  protected override inTurn<Result>(use: () => Promise<Result>): Promise<Result> {
    const turn = (lastTurns.get(this.database) ?? Promise.resolve()).then(use);
    const ended = turn.catch(() => undefined);
    lastTurns.set(this.database, ended);
    return turn;
  }

  /** It has waited long enough. */
  protected override mayRunAgain(error: unknown): boolean {
    return !(error instanceof FileBusyError) && super.mayRunAgain(error);
  }

  /** Another connection may read longer than the busy timeout at the commit: then the transaction is tried again. */
  protected override longestDelayMs(count: number): number {
    return RETRY_DELAY_MS * count;
  }

  /** Not async: nothing may go on after a refusal, also where nobody waits for the promise. */
  advance(database: Database, token: FenceToken | undefined, options?: FenceKeys): Promise<void> {
    return this.advanceAtOnce('advance', database, token, options);
  }

  advanceSync(database: Database, token: FenceToken | undefined, options?: FenceKeys): void {
    void this.advanceAtOnce('advanceSync', database, token, options);
  }

  /** @returns when it was reported that the token was admitted */
  private advanceAtOnce(
    name: 'advance' | 'advanceSync',
    database: Database,
    token: FenceToken | undefined,
    options?: FenceKeys,
  ): Promise<void> {
    const claims = fenceClaims(token, keysOf(`fence.${name}`, options));
    checkTransaction(name, database, claims);
    if (!isInSqliteTransaction(database)) throw outsideTransaction(claims);
    const call = openCalls.get(database);
    const report = (outcome: Promise<void>): Promise<void> =>
      call?.of === this
        ? outcome
        : this.reporter.reporting(token, claims, 'advance', () => outcome);
    try {
      this.advanceNow(database, claims);
    } catch (error) {
      // Reported by the fence of the transaction when that has been rolled back.
      if (call && isStaleTokenError(error)) call.refusal = { error, token, claims };
      report(Promise.reject(error as Error)).catch(() => undefined);
      throw error;
    }
    return report(Promise.resolve());
  }

  /** Without an `await` between BEGIN and COMMIT unless the work is asynchronous. */
  protected override attempt<Result>(call: FenceCall<Database, Result>): Promise<Result> {
    const { database } = this;
    const { claims, work, options = {}, isClaim } = call;
    const { isolationLevel, lockTimeout, idleInTransactionTimeout } = options;
    if ((isolationLevel ?? lockTimeout ?? idleInTransactionTimeout) !== undefined) {
      throw new FencedUsageError(
        'SQLite has one isolation level (serializable) and no lock timeout per transaction: leave these options out, and set the busy timeout on the connection.',
      );
    }
    const commit = (result: Result): Result => {
      if (call.refusal) throw call.refusal.error;
      if (!isClaim) database.exec(sqliteFenceSql.checkMark());
      database.exec('COMMIT');
      openCalls.delete(database);
      return result;
    };
    const rollback = (error: unknown): never => {
      openCalls.delete(database);
      try {
        database.exec('ROLLBACK');
      } catch {
        // SQLite itself has rolled back after some errors. The error of the work says more.
      }
      return refuseEnded(error);
    };
    delete call.refusal;
    const use = (): Promise<Result> | Result => {
      openCalls.set(database, call);
      try {
        this.advanceNow(database, claims);
        if (!isClaim) database.exec(sqliteFenceSql.mark);
        const result = this.context.run(call, () => work(database));
        return result instanceof Promise ? result.then(commit).catch(rollback) : commit(result);
      } catch (error) {
        return rollback(error);
      }
    };
    const keys = claims.map(({ key }) => key);
    return beginWhenFree(database, keys, use);
  }

  /** Without an `await`: what others write on this connection meanwhile would belong to it. */
  protected override inTransaction<Result>(steps: () => SqlSteps<Result>): Promise<Result> {
    const { database } = this;
    return beginWhenFree(database, [], () => {
      try {
        const result = runStepsNow((statement) => runNow(database, statement), steps());
        database.exec('COMMIT');
        return result;
      } catch (error) {
        database.exec('ROLLBACK');
        throw error;
      }
    });
  }

  /** @param database where the transaction is, which may be another connection than that of the fence */
  private advanceNow(database: Database, claims: readonly FenceClaim[]): void {
    let rows: readonly SqlRow[] = [];
    try {
      for (const statement of advanceStatements('sqlite', this.table, claims))
        rows = runNow(database, statement);
    } catch (error) {
      throw fenceError(error, 'sqlite', this.table, claims);
    }
    checkFenceRows(rows, claims);
  }
}
