import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { PruneOptions } from '../fence.ts';
import { isLockTimeoutError, isRetryableSqlError } from '../sql/sql-error.ts';
import type { SqlDialect, SqlRow, SqlSteps } from '../sql/sql-executor.ts';
import { ageOf, counterRefusal, FIRST_TIME, pruneRefusal } from '../fence-arguments.ts';

/** At the floor of a table whose holders are in their transactions. */
const FLOOR_ATTEMPTS = 30;
const FLOOR_DELAY_MS = 500;

const KEYS_PER_TRANSACTION = 1_000;

/** What pruning says differently in each dialect. */
interface PruneSql {
  /** The type of tokens. */
  readonly integer: string;
  /** A key as it is shown, from its parameter. */
  readonly key: (placeholder: string) => string;
  /** The column of keys as it comes here, and goes back. */
  readonly shownKey: string;
  /** What was shown, for people. */
  readonly textOf: (shown: string) => string;
  /** Makes sure that the floor is at least `$1`; returns no row where there is none. */
  raise(table: string): string;
  /** Milliseconds by the clock of the database. */
  readonly now: string;
  /** Of rows by their keys; before FROM and behind the table. */
  readonly delete: readonly [verb: string, index: string];
  readonly keysPerDelete: number;
  /** Of a DELETE. */
  readonly end?: string;
  /** Where others may have a lock of a row: takes those that are free. */
  readonly lockFree?: string;
  /** Before and after the wait for the row of the floor. */
  readonly patience?: { before(table: string): readonly string[]; readonly after?: string };
  /** Lets those that come later wait behind, where they would share the row of the floor with those before. */
  queue?(table: string): readonly string[];
}

const asShown = (shown: string): string => shown;

const PRUNE_SQL: Readonly<Record<SqlDialect, PruneSql>> = {
  postgresql: {
    integer: 'bigint',
    key: (placeholder) => `CAST(${placeholder} AS text)`,
    shownKey: 'resource',
    textOf: asShown,
    raise: (table) => `WITH raised AS (
UPDATE ${table} SET token = GREATEST(token, CAST($1 AS bigint)) WHERE resource = '' RETURNING token
) SELECT CAST(token AS text) AS floor FROM raised`,
    now: 'EXTRACT(EPOCH FROM clock_timestamp()) * 1000',
    delete: ['DELETE', ''],
    keysPerDelete: KEYS_PER_TRANSACTION,
    lockFree: 'FOR UPDATE SKIP LOCKED',
    // Not lock_timeout: the row is waited for again for each of those that share it.
    patience: { before: () => ["SET LOCAL statement_timeout = '1s'"] },
    queue: (table) => [`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`],
  },
  mysql: {
    integer: 'SIGNED',
    key: (placeholder) => `UNHEX(${placeholder})`,
    // As text it would depend on the character set of the connection.
    shownKey: 'HEX(resource)',
    textOf: (shown) => Buffer.from(shown, 'hex').toString('utf8'),
    raise: (table) =>
      `INSERT INTO ${table} (resource, token) VALUES ('', CAST($1 AS SIGNED)) ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`,
    now: 'UNIX_TIMESTAMP(NOW(3)) * 1000',
    // Without the index it may look at all rows, and lock them.
    delete: ['DELETE f', 'FORCE INDEX (PRIMARY)'],
    keysPerDelete: 100,
    lockFree: 'FOR UPDATE SKIP LOCKED',
    // It waits for all that use the fence, and others queue behind it.
    patience: {
      before: (table) => [
        // A SET alone begins no transaction.
        `SELECT 1 AS begun FROM ${table} WHERE resource = ''`,
        'SET @redlock_fence_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = 1',
      ],
      after: 'SET innodb_lock_wait_timeout = @redlock_fence_wait',
    },
  },
  sqlite: {
    integer: 'INTEGER',
    key: (placeholder) => placeholder,
    shownKey: 'resource',
    textOf: asShown,
    raise: (table) =>
      `INSERT INTO ${table} (resource, token) VALUES ('', CAST($1 AS INTEGER)) ON CONFLICT (resource) DO UPDATE SET token = MAX(token, excluded.token) RETURNING 1`,
    now: "(julianday('now') - 2440587.5) * 86400000",
    // Where DELETE comes first, MikroORM 6 leaves the statement open, and no later transaction works.
    delete: ['WITH none AS (SELECT 1) DELETE', ''],
    keysPerDelete: KEYS_PER_TRANSACTION,
    // A statement without rows would have to be run in another way.
    end: 'RETURNING 1',
  },
};

/** Runs the statements in a transaction of their own, again when the database aborts it. */
type Use = <Result>(steps: () => SqlSteps<Result>) => Promise<Result>;

/**
 * Raises the floor of the table in a transaction of its own, and then deletes what is below it.
 *
 * A claim may have read the old floor, wait for a deleted row, and insert its own: it reads the floor again, or for the first
 * time, after that.
 */
export async function pruneFence(
  dialect: SqlDialect,
  table: string,
  options: PruneOptions,
  use: Use,
): Promise<number> {
  const ageMs = ageOf(options);
  const sql = PRUNE_SQL[dialect];
  const floor = await use(() => chooseFloor(sql, table, ageMs));
  if (floor < FIRST_TIME) return 0;
  const raise = (isSecond: boolean) => use(() => raiseFloor(sql, table, floor, isSecond));
  await (sql.patience ? patiently(raise) : raise(false));
  let count = 0;
  for (let last: string | undefined = ''; last !== undefined;) {
    const after: string = last;
    const page = await use(() => deletePage(sql, table, floor, after));
    count += page.deleted;
    last = page.last;
    // A database in this process would leave no turn to anything else.
    await nextTurn();
  }
  return count;
}

/** Repeats what waited a second for holders that are in their transactions, or was aborted for their sake again and again. */
async function patiently(work: (isSecond: boolean) => Promise<void>): Promise<void> {
  for (let count = 1; ; count += 1) {
    try {
      return await work(count > 1);
    } catch (error) {
      const mayPass = isLockTimeoutError(error) || isRetryableSqlError(error);
      if (count === FLOOR_ATTEMPTS || !mayPass) throw error;
      await delay(FLOOR_DELAY_MS);
    }
  }
}

/** @throws FencedUsageError when the table has the tokens of a counter */
function* chooseFloor(sql: PruneSql, table: string, ageMs: number): SqlSteps<string> {
  const counters = `SELECT ${sql.shownKey} AS resource FROM ${table} WHERE token < ${FIRST_TIME} AND resource > '' LIMIT 1`;
  const [counter] = yield { sql: counters, parameters: [] };
  if (counter) {
    throw counterRefusal(subjectOf(table), sql.textOf(String(counter['resource'])));
  }
  const [clock] = yield { sql: `SELECT ${sql.now} AS now`, parameters: [] };
  // A clock that is ahead would refuse holders.
  const nowMs = Math.min(Date.now(), Math.floor(Number(clock!['now'])));
  return String(BigInt(Math.max(nowMs - ageMs, 0)) * 1_000n).padStart(FIRST_TIME.length, '0');
}

function* raiseFloor(
  sql: PruneSql,
  table: string,
  floor: string,
  isSecond: boolean,
): SqlSteps<void> {
  const after = sql.patience?.after;
  const before = sql.patience?.before(table) ?? [];
  const queue = (isSecond ? sql.queue?.(table) : undefined) ?? [];
  for (const text of [...before, ...queue]) yield { sql: text, parameters: [] };
  let isRaised = true;
  try {
    const rows = yield { sql: sql.raise(table), parameters: [floor] };
    isRaised = rows.length > 0 || sql.queue === undefined;
  } catch (error) {
    try {
      if (after) yield { sql: after, parameters: [] };
    } catch {
      // The first error says why. It may have ended the transaction, which is then said of this statement.
    }
    throw error;
  }
  if (after) yield { sql: after, parameters: [] };
  const why = 'it has no row for its floor. Run fence.ddl() again, which adds it.';
  if (!isRaised) throw pruneRefusal(subjectOf(table), why);
}

function subjectOf(table: string): string {
  return `The fence table '${table}'`;
}

/**
 * Deletes those of the next keys after `after` whose tokens are below the floor; `last` is undefined at the end of the table. It
 * leaves rows that a transaction holds: that may last, and others would wait for the rows deleted before.
 */
function* deletePage(
  sql: PruneSql,
  table: string,
  floor: string,
  after: string,
): SqlSteps<{ readonly deleted: number; readonly last: string | undefined }> {
  const page = `SELECT ${sql.shownKey} AS shown, CASE WHEN token < CAST($1 AS ${sql.integer}) THEN 1 ELSE 0 END AS is_old FROM ${table}
WHERE resource > ${sql.key('$2')} ORDER BY ${table}.resource LIMIT ${KEYS_PER_TRANSACTION}`;
  const rows = yield { sql: page, parameters: [floor, after] };
  const old = rows.filter((row) => Number(row['is_old']) === 1).map(shownKey);
  const [verb, index] = sql.delete;
  const rowsOf = (keys: readonly string[]): string =>
    `FROM ${table} AS f ${index} WHERE resource IN (${keys.map((_key, at) => sql.key(`$${at + 2}`)).join(', ')}) AND token < CAST($1 AS ${sql.integer})`;
  let deleted = 0;
  for (let at = 0; at < old.length; at += sql.keysPerDelete) {
    let keys = old.slice(at, at + sql.keysPerDelete);
    if (sql.lockFree) {
      const free = `SELECT ${sql.shownKey} AS shown ${rowsOf(keys)} ${sql.lockFree}`;
      keys = (yield { sql: free, parameters: [floor, ...keys] }).map(shownKey);
    }
    if (keys.length === 0) continue;
    yield {
      sql: `${verb} ${rowsOf(keys)} ${sql.end ?? ''}`,
      parameters: [floor, ...keys],
    };
    deleted += keys.length;
  }
  const isLast = rows.length < KEYS_PER_TRANSACTION;
  return { deleted, last: isLast ? undefined : shownKey(rows.at(-1)!) };
}

function shownKey(row: SqlRow): string {
  return String(row['shown']);
}
