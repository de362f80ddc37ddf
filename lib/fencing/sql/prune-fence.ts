import { setImmediate as nextTurn } from 'node:timers/promises';
import { RedlockConfigError } from '../../core/errors.ts';
import { MARGIN_MS } from '../fence-arguments.ts';
import { FIRST_TIME } from '../fence-claim.ts';
import { FENCE_SQL, type FenceTable } from './dialect.ts';
import { send, type SqlDialect, type SqlExecutor, type SqlRow } from './sql-executor.ts';
import type { Steps } from '../steps.ts';

/** MariaDB takes a list of 1,000 for a table of its own, and may look at all rows to delete those, and lock them. */
const KEYS_PER_TRANSACTION = 500;

/** The parts of pruning that differ in each dialect. */
interface PruneSql {
  /** The column of keys as it comes here, and goes back. */
  readonly shownKey: string;
  /** The parts of a DELETE of rows by their keys: before FROM and behind the table. */
  readonly delete: readonly [verb: string, index: string];
  /** The end of a DELETE. */
  readonly end?: string;
  /** The clause that takes the free rows, where others may have a lock of a row. */
  readonly lockFree?: string;
}

const PRUNE_SQL: Readonly<Record<SqlDialect, PruneSql>> = {
  postgresql: {
    shownKey: 'resource',
    delete: ['DELETE', ''],
    lockFree: 'FOR UPDATE SKIP LOCKED',
  },
  mysql: {
    // Text would depend on the character set of the connection.
    shownKey: 'HEX(resource)',
    // A statement without the index may look at all rows, and lock them.
    delete: ['DELETE f', 'FORCE INDEX (PRIMARY)'],
    lockFree: 'FOR UPDATE SKIP LOCKED',
  },
  sqlite: {
    shownKey: 'resource',
    // When DELETE comes first, MikroORM 6 leaves the statement open, and no later transaction works.
    delete: ['WITH none AS (SELECT 1) DELETE', ''],
    // A statement without rows would have to be run in another way.
    end: 'RETURNING 1',
  },
};

/** Runs the statements in a transaction of their own, again when the database aborts it. */
type Use = <Result>(steps: (executor: SqlExecutor) => Steps<Result>) => Promise<Result>;

/**
 * Deletes the rows that the fence does without: it refuses their tokens, and all that are older, for their age.
 *
 * @throws RedlockConfigError when the table admits tokens of every age
 */
export async function pruneFence(table: FenceTable, use: Use): Promise<number> {
  const { maxAgeMs } = table;
  if (maxAgeMs === undefined) {
    const fix =
      "give the fence a maxAge, such as '30d': prune deletes what is older. Nothing was deleted";
    throw new RedlockConfigError('maxAge', maxAgeMs, fix);
  }
  const limit = await use((executor) => chooseLimit(executor, table, maxAgeMs + MARGIN_MS));
  let count = 0;
  for (let last: string | undefined = ''; last !== undefined;) {
    const after: string = last;
    const page = await use((executor) => deletePage(executor, table, limit, after));
    count += page.deleted;
    last = page.last;
    // A database in this process would leave no turn to anything else.
    await nextTurn();
  }
  return count;
}

/** The first token that stays. */
function* chooseLimit(
  executor: SqlExecutor,
  { dialect }: FenceTable,
  ageMs: number,
): Steps<string> {
  const [row] = yield send(executor, `SELECT ${FENCE_SQL[dialect].clock} AS now`);
  // When the clock of the database is ahead, it goes back one day: its tokens count as younger then.
  const now = Math.min(Date.now() * 1_000, Number(row!['now']));
  return String(now - ageMs * 1_000);
}

/**
 * Deletes those of the next keys after `after` whose tokens are times before `limit`; `last` is undefined at the end of the table. It
 * leaves rows that a transaction holds: that may last, and others would wait for the rows deleted before.
 */
function* deletePage(
  executor: SqlExecutor,
  { dialect, name }: FenceTable,
  limit: string,
  after: string,
): Steps<{ readonly deleted: number; readonly last: string | undefined }> {
  const { integer, text } = FENCE_SQL[dialect];
  const sql = PRUNE_SQL[dialect];
  const isOld = `token >= ${FIRST_TIME} AND token < CAST($1 AS ${integer})`;
  const page = `SELECT ${sql.shownKey} AS shown, CASE WHEN ${isOld} THEN 1 ELSE 0 END AS expired FROM ${name}
WHERE resource > ${text('$2')} ORDER BY ${name}.resource LIMIT ${KEYS_PER_TRANSACTION}`;
  const rows: readonly SqlRow[] = yield send(executor, page, [limit, after]);
  let old = rows.filter((row) => Number(row['expired']) === 1).map(shownKey);
  const [verb, index] = sql.delete;
  const last = rows.length < KEYS_PER_TRANSACTION ? undefined : shownKey(rows.at(-1)!);
  const rowsOf = (keys: readonly string[]): string =>
    `FROM ${name} AS f ${index} WHERE resource IN (${keys.map((_key, at) => text(`$${at + 2}`)).join(', ')}) AND ${isOld}`;
  if (old.length > 0 && sql.lockFree) {
    const free = `SELECT ${sql.shownKey} AS shown ${rowsOf(old)} ${sql.lockFree}`;
    const freeRows: readonly SqlRow[] = yield send(executor, free, [limit, ...old]);
    old = freeRows.map(shownKey);
  }
  if (old.length > 0)
    yield send(executor, `${verb} ${rowsOf(old)} ${sql.end ?? ''}`, [limit, ...old]);
  return { deleted: old.length, last };
}

function shownKey(row: SqlRow): string {
  return String(row['shown']);
}
