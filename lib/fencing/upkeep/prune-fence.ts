import { setTimeout as delay } from 'node:timers/promises';
import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import type { PruneOptions } from '../fence.ts';
import { isLockTimeoutError } from '../sql/sql-error.ts';
import { fenceSqlOf } from '../sql/dialect.ts';
import {
  runStatement,
  type SqlDialect,
  type SqlExecutor,
  type SqlRow,
} from '../sql/sql-executor.ts';

const DAY_MS = 86_400_000;

/** In 2001; what is smaller is no time in microseconds. */
const FIRST_TIME = '1000000000000000';

/** At the floor of a table of MariaDB or MySQL. */
const FLOOR_ATTEMPTS = 30;
const FLOOR_DELAY_MS = 500;

const KEYS_PER_TRANSACTION = 1_000;

/** What pruning says differently in each dialect. */
interface PruneSql {
  /** The type of tokens. */
  readonly integer: string;
  /** A key from its parameter. */
  readonly key: (placeholder: string) => string;
  /** The column of keys as text. */
  readonly shownKey: string;
  /** Makes sure that the floor is at least `$1`; returns no row where there is none. */
  raise(table: string): string;
  /** Milliseconds by the clock of the database. */
  readonly now: string;
  readonly keysPerDelete: number;
  /** After a DELETE: drivers of SQLite want to know whether a statement has rows. */
  readonly returning?: string;
  /** Around the wait for the row of the floor. */
  readonly patience?: readonly [before: string, after: string];
}

const PRUNE_SQL: Readonly<Record<SqlDialect, PruneSql>> = {
  postgresql: {
    integer: 'bigint',
    key: (placeholder) => `CAST(${placeholder} AS text)`,
    shownKey: 'resource',
    raise: (table) => `WITH raised AS (
UPDATE ${table} SET token = GREATEST(token, CAST($1 AS bigint)) WHERE resource = '' RETURNING token
) SELECT CAST(token AS text) AS floor FROM raised`,
    now: 'EXTRACT(EPOCH FROM clock_timestamp()) * 1000',
    keysPerDelete: KEYS_PER_TRANSACTION,
  },
  mysql: {
    integer: 'SIGNED',
    key: (placeholder) => `UNHEX(${placeholder})`,
    shownKey: 'CONVERT(resource USING utf8mb4)',
    raise: (table) =>
      `INSERT INTO ${table} (resource, token) VALUES ('', CAST($1 AS SIGNED)) ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`,
    now: 'UNIX_TIMESTAMP(NOW(3)) * 1000',
    // For many at once InnoDB may look at all rows, and lock them.
    keysPerDelete: 1,
    // It waits for all that use the fence, and others queue behind it.
    patience: [
      'SET @redlock_fence_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = 1',
      'SET innodb_lock_wait_timeout = @redlock_fence_wait',
    ],
  },
  sqlite: {
    integer: 'INTEGER',
    key: (placeholder) => placeholder,
    shownKey: 'resource',
    raise: (table) =>
      `INSERT INTO ${table} (resource, token) VALUES ('', CAST($1 AS INTEGER)) ON CONFLICT (resource) DO UPDATE SET token = MAX(token, excluded.token) RETURNING 1`,
    now: "(julianday('now') - 2440587.5) * 86400000",
    keysPerDelete: KEYS_PER_TRANSACTION,
    returning: 'RETURNING 1',
  },
};

type Use = (
  work: (executor: SqlExecutor) => Promise<readonly SqlRow[]>,
) => Promise<readonly SqlRow[]>;

/**
 * Raises the floor of the table in a transaction of its own, and then deletes what is below it.
 *
 * A claim may have read the old floor, wait for a deleted row, and insert its own: it reads the floor again, or for the first
 * time, after that.
 *
 * @param use runs its argument in a new transaction
 */
export async function pruneFence(
  dialect: SqlDialect,
  table: string,
  { olderThan }: PruneOptions,
  use: Use,
): Promise<number> {
  const ageMs = agePerhaps(olderThan);
  if (!(ageMs >= DAY_MS)) {
    const fix = "give milliseconds, or a text such as '36h' or '30d', from '1d': clocks may differ";
    throw new RedlockConfigError('olderThan', olderThan, fix);
  }
  const sql = PRUNE_SQL[dialect];
  const floor = await patiently(() => raiseFloor(sql, table, ageMs, use));
  const { encode = (text: string) => text } = fenceSqlOf(dialect);
  let count = 0;
  for (let last = ''; ;) {
    const keys = await deletePage(sql, table, floor, encode(last), encode, use);
    count += keys.length;
    if (keys.length < KEYS_PER_TRANSACTION) return count;
    last = keys.at(-1)!;
  }
}

/** Repeats what waited a second for holders that are in their transactions. */
async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let count = 1; ; count += 1) {
    try {
      return await work();
    } catch (error) {
      if (count === FLOOR_ATTEMPTS || !isLockTimeoutError(error)) throw error;
      await delay(FLOOR_DELAY_MS);
    }
  }
}

/** NaN when it is no age. */
function agePerhaps(olderThan: unknown): number {
  if (typeof olderThan === 'number') return Math.round(olderThan);
  const [, count, unit] = /^(\d+(?:\.\d+)?)([hd])$/.exec(String(olderThan)) ?? [];
  return Math.round(Number(count) * (unit === 'd' ? DAY_MS : DAY_MS / 24));
}

async function raiseFloor(sql: PruneSql, table: string, ageMs: number, use: Use): Promise<string> {
  const counters = `SELECT ${sql.shownKey} AS resource FROM ${table} WHERE token < ${FIRST_TIME} AND resource > '' LIMIT 1`;
  let floor = '';
  await use(async (executor) => {
    const query = (text: string, ...parameters: unknown[]) =>
      runStatement(executor, { sql: text, parameters });
    const [counter] = await query(counters);
    if (counter)
      throw refusal(
        `its key '${String(counter['resource'])}' has the token of a counter, which tells no age. Prune only what the quorum numbers.`,
      );
    const [clock] = await query(`SELECT ${sql.now} AS now`);
    // A clock that is ahead would refuse holders.
    const nowMs = Math.min(Date.now(), Math.floor(Number(clock!['now'])));
    floor = String(BigInt(nowMs - ageMs) * 1_000n);
    const [before, after] = sql.patience ?? [];
    if (before) await query(before);
    try {
      const rows = await query(sql.raise(table), floor);
      const isRaised = executor.dialect !== 'postgresql' || rows.length > 0;
      if (!isRaised)
        throw refusal('it has no row for its floor. Run fence.ddl() again, which adds it.');
    } finally {
      if (after) await query(after);
    }
    return [];
  });
  return floor;

  function refusal(why: string): FencedUsageError {
    return new FencedUsageError(
      `The fence table '${table}' can't be pruned: ${why} Nothing was deleted.`,
    );
  }
}

/** @returns the next keys after `last` whose tokens are below the floor, which it deletes */
async function deletePage(
  sql: PruneSql,
  table: string,
  floor: string,
  last: string,
  encode: (text: string) => string,
  use: Use,
): Promise<readonly string[]> {
  const page = `SELECT ${sql.shownKey} AS resource FROM ${table}
WHERE resource > ${sql.key('$2')} AND token < CAST($1 AS ${sql.integer}) ORDER BY ${table}.resource LIMIT ${KEYS_PER_TRANSACTION}`;
  const rows = await use(async (executor) => {
    const found = await runStatement(executor, { sql: page, parameters: [floor, last] });
    for (let at = 0; at < found.length; at += sql.keysPerDelete) {
      const keys = found
        .slice(at, at + sql.keysPerDelete)
        .map((row) => encode(String(row['resource'])));
      const list = keys.map((_key, index) => sql.key(`$${index + 2}`)).join(', ');
      const text = `DELETE FROM ${table} WHERE resource IN (${list}) AND token < CAST($1 AS ${sql.integer}) ${sql.returning ?? ''}`;
      await runStatement(executor, { sql: text, parameters: [floor, ...keys] });
    }
    return found;
  });
  return rows.map((row) => String(row['resource']));
}
