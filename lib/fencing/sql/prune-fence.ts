import { setImmediate as nextTurn } from 'node:timers/promises';
import { RedlockConfigError } from '../../core/errors.ts';
import { MARGIN_MS } from '../fence-arguments.ts';
import { FIRST_TIME } from '../fence-claim.ts';
import type { Steps } from '../steps.ts';
import { asQuery, FENCE_SQL, type FenceTable } from './dialect.ts';
import { send, type SqlExecutor, type SqlRow } from './sql-executor.ts';

/** MariaDB takes a list of 1,000 for a table of its own, and may look at all rows to delete those, and lock them. */
const KEYS_PER_PAGE = 500;

/** The parts of the statements that differ in each dialect. */
const PRUNE_SQL = {
  postgresql: {
    shownKey: 'resource',
    index: '',
    lockFree: 'FOR UPDATE SKIP LOCKED',
    delete: 'DELETE',
  },
  mysql: {
    // A text would depend on the character set of the connection.
    shownKey: 'HEX(resource)',
    // A statement without the index may look at all rows, and lock them.
    index: 'FORCE INDEX (PRIMARY)',
    lockFree: 'FOR UPDATE SKIP LOCKED',
    delete: 'DELETE f',
  },
  sqlite: {
    shownKey: 'resource',
    index: '',
    // The transaction has locked the file.
    lockFree: '',
    delete: 'DELETE',
  },
} as const;

/** Runs the statements in a transaction of their own, again when the database aborts it. */
type OwnTransaction = (steps: (executor: SqlExecutor) => Steps<Page>) => Promise<Page>;

/**
 * Deletes the rows that the fence does without: it refuses their tokens, and all that are older, for their age.
 *
 * @throws RedlockConfigError when the table admits tokens of every age
 */
export async function pruneFence(table: FenceTable, use: OwnTransaction): Promise<number> {
  const { maxAgeMs } = table;
  if (maxAgeMs === undefined) {
    const fix =
      "give the fence a maxAge, such as '30d': prune deletes what is older. Nothing was deleted";
    throw new RedlockConfigError('maxAge', maxAgeMs, fix);
  }
  const ageMs = maxAgeMs + MARGIN_MS;
  // When the clock of the database is ahead, it goes back one day. By that of this process, its tokens are younger then.
  const limit = () => `${(Date.now() - ageMs) * 1_000}`;
  const old = () =>
    `token >= ${FIRST_TIME} AND token < ${limit()} AND token < ${FENCE_SQL[table.dialect].clock} - ${ageMs}000`;
  return pruneRows(table, old, use);
}

/**
 * Deletes the rows of a table with the key `resource`, in pages, and waits for no transaction that holds one.
 *
 * @param old the condition, asked for each page
 */
export async function pruneRows(
  table: FenceTable,
  old: () => string,
  use: OwnTransaction,
): Promise<number> {
  let count = 0;
  for (let last: string | undefined = ''; last !== undefined;) {
    const after: string = last;
    const page = await use((executor) => deletePage(executor, table, old(), after));
    count += page.deleted;
    last = page.last;
    // A database in this process would leave no turn to anything else.
    await nextTurn();
  }
  return count;
}

interface Page {
  readonly deleted: number;
  /** The last key of the page, unless it is that of the table, too. */
  readonly last: string | undefined;
}

/**
 * Deletes the first rows behind the key `after` that are old.
 *
 * One DELETE of all such rows would wait for each that a transaction holds. On MariaDB it would also lock every row that it looks at,
 * so that the holders of today would wait for it. Therefore the page is read without locks, and a row that a transaction holds
 * stays until the next time: that may last, and others would wait meanwhile for the rows deleted before.
 */
function* deletePage(
  executor: SqlExecutor,
  { dialect, name }: FenceTable,
  isOld: string,
  after: string,
): Steps<Page> {
  const { text } = FENCE_SQL[dialect];
  const { shownKey, index, lockFree, delete: start } = PRUNE_SQL[dialect];
  const old = `FROM ${name} AS f ${index} WHERE ${isOld} AND resource`;
  const among = (keys: readonly string[]): string =>
    `${old} IN (${keys.map((_key, at) => text(`$${at + 1}`)).join(', ')})`;
  function* select(rest: string, keys: readonly string[]): Steps<string[]> {
    const rows: SqlRow[] = yield send(executor, `SELECT ${shownKey} AS shown ${rest}`, keys);
    return rows.map((row) => String(row['shown']));
  }
  const next = `${old} > ${text('$1')} ORDER BY resource LIMIT ${KEYS_PER_PAGE}`;
  const page = yield* select(next, [after]);
  const free = page.length > 0 ? yield* select(`${among(page)} ${lockFree}`, page) : page;
  if (free.length > 0) yield send(executor, asQuery(dialect, `${start} ${among(free)}`), free);
  return { deleted: free.length, last: page[KEYS_PER_PAGE - 1] };
}
