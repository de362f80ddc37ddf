import { setTimeout as delay } from 'node:timers/promises';
import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import { checkFenceArguments, hasMethods } from '../fence-arguments.ts';
import { FileBusyError, isBusyFileError } from '../sql/sql-error.ts';
import type { Fence, FenceKeys, FenceToken, SqlFenceOptions } from '../fence.ts';
import { runSteps } from '../steps.ts';
import type { SqlExecutor } from '../sql/sql-executor.ts';
import { inTurn } from '../sql/in-turn.ts';
import { SqlFence } from '../sql/sql-fence.ts';
import { refuseSecondDriver } from '../sql/sqlite-driver.ts';

/** The part of a database of `better-sqlite3` or `node:sqlite` that the fence uses. */
export interface SqliteDatabase {
  /** The property of better-sqlite3. */
  readonly inTransaction?: boolean;
  /** The property of node:sqlite, from Node.js 22.16. */
  readonly isTransaction?: boolean;
  prepare(sql: string): { all(...parameters: any[]): any[] };
  exec(sql: string): unknown;
}

const SHORTEST_BUDGET_MS = 5_000;
const SHORTEST_STEP_MS = 5;
const LONGEST_STEP_MS = 50;

/**
 * @param startMs when the wait began
 * @returns whether the file was free
 */
function beginNow(database: SqliteDatabase, startMs: number): boolean {
  if (isInSqliteTransaction(database))
    throw new FencedUsageError(
      'A transaction is open on this connection, and a second one cannot be begun. Call it when no transaction is open, or give the fence a connection of its own.',
    );
  const timeoutMs = readBusyTimeout(database);
  try {
    database.exec(`${timeoutMs > 0 ? 'PRAGMA busy_timeout = 0; ' : ''}BEGIN IMMEDIATE`);
    return true;
  } catch (error) {
    if (!isBusyFileError(error)) throw error;
    const waitedMs = performance.now() - startMs;
    if (waitedMs >= Math.max(timeoutMs, SHORTEST_BUDGET_MS)) throw fileBusy(error, waitedMs);
    return false;
  } finally {
    if (timeoutMs > 0) database.exec(`PRAGMA busy_timeout = ${timeoutMs}`);
  }
}

function readBusyTimeout(database: SqliteDatabase): number {
  const [row] = database.prepare('PRAGMA busy_timeout').all();
  return Number(Object.values(Object(row))[0]) || 0;
}

/** An error with the fields of the driver's error, such as its code. */
function fileBusy(cause: unknown, waitedMs: number): FileBusyError {
  const message = `The SQLite file was busy for ${Math.round(waitedMs)} ms: another connection, of this process or another one, has an open transaction that writes. Nothing was written. Keep transactions short, or set a longer busy timeout on the connection of the fence.`;
  return Object.assign(new FileBusyError(message, { cause }), cause);
}

function isInSqliteTransaction(database: SqliteDatabase): boolean {
  if (!hasMethods(database, ['prepare', 'exec'])) return false;
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

/** The fence in an SQLite file, whose transactions may be synchronous. */
export interface SqliteFence<Database> extends Fence<Database> {
  /**
   * Works as on other databases, but does so before it returns, on the connection it is given, and what it refuses is thrown
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
  const executor = (connection: Database): SqlExecutor => ({
    placeholder: 'question-mark',
    query: (sql, parameters) => {
      if (!/^(SAVEPOINT|RELEASE) /.test(sql)) return connection.prepare(sql).all(...parameters);
      // better-sqlite3 has another method for statements without rows.
      connection.exec(sql);
      return [];
    },
  });
  return new SqliteTableFence<Database>(
    {
      dialect: 'sqlite',
      database,
      onlyConnection: database,
      executor,
      isTransaction: isInSqliteTransaction,
      run: (work, isolationLevel) => {
        if (isolationLevel !== undefined)
          throw new RedlockConfigError(
            'isolationLevel',
            isolationLevel,
            'SQLite has only one, serializable: leave it out',
          );
        return inTurn(database, () => {
          // It comes before BEGIN, whose end would free the locks of the other driver.
          void runSteps(refuseSecondDriver(executor(database), database));
          return inBegun(database, () => work(database));
        });
      },
    },
    options,
  );
}

/**
 * Begins a transaction when no other connection writes. The drivers wait synchronously, and the connection that holds the file may
 * be one of this process, which could not go on. Between BEGIN and COMMIT there is no `await` unless `use` has one: what others
 * write on this connection meanwhile would belong to the transaction.
 *
 * @throws FileBusyError
 */
async function inBegun<Result>(
  database: SqliteDatabase,
  use: () => Promise<Result> | Result,
): Promise<Result> {
  const startMs = performance.now();
  for (let count = 1; !beginNow(database, startMs); count += 1) {
    const longestMs = Math.min(LONGEST_STEP_MS, SHORTEST_STEP_MS * (count + 1));
    await delay(SHORTEST_STEP_MS + Math.random() * (longestMs - SHORTEST_STEP_MS));
  }
  try {
    const used = use();
    const result = used instanceof Promise ? await used : used;
    database.exec('COMMIT');
    return result;
  } catch (error) {
    try {
      database.exec('ROLLBACK');
    } catch {
      // SQLite itself has rolled back after some errors. The error of the work says more.
    }
    throw error;
  }
}

class SqliteTableFence<Database extends SqliteDatabase>
  extends SqlFence<Database>
  implements SqliteFence<Database>
{
  /** It is not async: nothing may go on after a refusal, also where nobody waits for the promise. */
  override advance(
    database: Database,
    token: FenceToken | undefined,
    options?: FenceKeys,
  ): Promise<void> {
    const call = this.advanceCall(database, token, options);
    try {
      // The statements answer at once, so nothing is left to wait for.
      void this.advanceNow(call);
    } catch (error) {
      this.reportAdvance(call, () => Promise.reject(error as Error)).catch(() => undefined);
      throw error;
    }
    return this.reportAdvance(call, () => Promise.resolve());
  }

  advanceSync(database: Database, token: FenceToken | undefined, options?: FenceKeys): void {
    void this.advance(database, token, options);
  }
}
