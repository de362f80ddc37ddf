import { setTimeout as delay } from 'node:timers/promises';
import { FencedUsageError } from '../../core/errors.ts';
import { hasMethods } from '../fence-arguments.ts';
import { isBusyFileError } from '../sql/sql-error.ts';
import { renderStatement, type SqlRow, type SqlStatement } from '../sql/sql-executor.ts';

/** What the fence needs of a database of `better-sqlite3` or `node:sqlite`. */
export interface SqliteDatabase {
  /** Of better-sqlite3. */
  readonly inTransaction?: boolean;
  /** Of node:sqlite, from Node.js 22.16. */
  readonly isTransaction?: boolean;
  prepare(sql: string): { all(...parameters: any[]): any[] };
  exec(sql: string): unknown;
}

const SHORTEST_BUDGET_MS = 5_000;
const SHORTEST_STEP_MS = 5;
const LONGEST_STEP_MS = 50;

/** Another connection held the file for all of the time that a transaction waited to begin. */
export class FileBusyError extends Error {}

/**
 * Begins a transaction when no other connection writes, and uses it before anything else can run.
 *
 * The drivers wait synchronously, and the connection that holds the file may be one of this process, which could not go on.
 *
 * @throws FileBusyError
 */
export async function beginWhenFree<Result>(
  database: SqliteDatabase,
  keys: readonly string[],
  use: () => Promise<Result> | Result,
): Promise<Result> {
  const startMs = performance.now();
  for (let count = 1; !beginNow(database, keys, startMs); count += 1) {
    const longestMs = Math.min(LONGEST_STEP_MS, SHORTEST_STEP_MS * (count + 1));
    await delay(SHORTEST_STEP_MS + Math.random() * (longestMs - SHORTEST_STEP_MS));
  }
  return use();
}

/**
 * @param startMs when the wait began
 * @returns whether the file was free
 */
function beginNow(database: SqliteDatabase, keys: readonly string[], startMs: number): boolean {
  if (isInSqliteTransaction(database))
    throw new FencedUsageError(
      'A transaction is open on this connection, and a second one cannot be begun. Call it when no transaction is open, or give the fence a connection of its own.',
      keys,
    );
  const timeoutMs = busyTimeoutOf(database);
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

function busyTimeoutOf(database: SqliteDatabase): number {
  const [row] = database.prepare('PRAGMA busy_timeout').all();
  return Number(Object.values(Object(row))[0]) || 0;
}

/** With the fields of the driver's error, such as its code. */
function fileBusy(cause: unknown, waitedMs: number): FileBusyError {
  const message = `The SQLite file was busy for ${Math.round(waitedMs)} ms: another connection, of this process or another one, has an open transaction that writes. Nothing was written. Keep transactions short, or set a longer busy timeout on the connection of the fence.`;
  return Object.assign(new FileBusyError(message, { cause }), cause);
}

export function runNow(database: SqliteDatabase, statement: SqlStatement): readonly SqlRow[] {
  const { sql, parameters } = renderStatement(statement, 'question-mark');
  return database.prepare(sql).all(...parameters);
}

export function isInSqliteTransaction(database: SqliteDatabase): boolean {
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
