import { listOfClaims, TextCache } from './sql-executor.ts';
import type { FenceSql } from './dialect.ts';

/** In front of the facts in the error by which PostgreSQL refuses a stale token. */
export const POISON_PREFIX = 'redlock:stale:';

/** In the error by which PostgreSQL refuses to commit another transaction than that of the advance. */
export const ENDED = 'redlock:ended';

/** In the error by which PostgreSQL refuses a row that is new where one was expected. */
export const NEW_ROW = 'redlock:new:';

type Text = (table: string, count: number) => string;

/** Makes the text once for each table and number of claims: a text that is the same object is also found faster by others. */
function cached(make: Text): Text {
  const texts = new TextCache();
  return (table, count) => texts.get(`${count} ${table}`, () => make(table, count));
}

/** The row of a claim in a list of VALUES. */
export function postgresFenceRow(key: string, token: string, holder: string): string {
  return `(CAST(${key} AS text), CAST(${token} AS bigint), CAST(${holder} AS text))`;
}

/**
 * The number in a text, or the error 22P02. No cast: a database can have its own from text to bigint, and that may be lenient. Nor
 * can a function of its own take the place of one that is called by its schema.
 */
const numberIn = (text: string): string => `pg_catalog.int8in(pg_catalog.textout(${text}))`;

/** The error by which PostgreSQL refuses, with what is newer. */
const poison = (key: string, token: string, holder: string): string =>
  numberIn(
    `pg_catalog.concat('${POISON_PREFIX}', pg_catalog.json_build_array(${key}, CAST(${token} AS text), ${holder}))`,
  );

/** What becomes of a row that is new, which must still be compared with the floor. */
type NewRow = 'admitted' | 'refused' | 'compared';

/** What stands in place of the token of a row that is not stale; one that is new has no xmax. */
function tokenOf(table: string, newRow: NewRow): string {
  if (newRow === 'admitted') return 'f.token';
  // Not around a query that locks the row: PostgreSQL reads the floor again when it had to wait, and plans one query less.
  const compared = `COALESCE((SELECT CASE WHEN floor.token > f.token THEN ${poison('f.resource', 'floor.token', "''")} END
    FROM ${table} AS floor WHERE floor.resource = '' FOR SHARE), f.token)`;
  // With its xmax: PostgreSQL would read a constant while it plans.
  const refused = numberIn(`pg_catalog.concat('${NEW_ROW}', f.xmax)`);
  return `CASE WHEN f.xmax = 0 THEN ${newRow === 'compared' ? compared : refused} ELSE f.token END`;
}

/**
 * The advance of each claim, and what it returns of its row: this token, or an error.
 *
 * The upsert locks the rows until the transaction ends and returns what they then hold: this token, or what is newer. It never
 * lowers a token. It waits for a transaction that holds a row; READ COMMITTED then sees its result, stricter levels fail
 * with 40001 and are tried again.
 *
 * A stale claim makes it fail with 22P02 (a text that is no number), which aborts the whole transaction: a swallowed
 * error can't commit.
 * All claims of one token share token and holder, so the first claim's parameters stand for all.
 *
 * @param newRow to compare it here takes longer to plan. The lock of the floor makes a snapshot that is older than the last prune
 *   fail, or the floor be read again
 * @param returning of the row, with this verdict in place of its token; some clients want a blank before RETURNING
 */
function upsert(
  table: string,
  count: number,
  newRow: NewRow,
  returning: (verdict: string) => string,
): string {
  const verdict = `CASE WHEN f.token = CAST($2 AS bigint) AND f.holder = CAST($3 AS text) THEN ${tokenOf(table, newRow)}
  ELSE ${poison('f.resource', 'f.token', 'f.holder')} END`;
  return `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${listOfClaims(count, postgresFenceRow)}
ON CONFLICT (resource) DO UPDATE SET
  token = GREATEST(f.token, EXCLUDED.token),
  holder = CASE WHEN EXCLUDED.token > f.token THEN EXCLUDED.holder ELSE f.holder END
 RETURNING ${returning(verdict)}`;
}

const textOf = (verdict: string): string => `resource, CAST(${verdict} AS text) AS token, holder`;

const advance = cached((table, count) =>
  upsert(
    table,
    count,
    'admitted',
    (verdict) =>
      `${textOf(verdict)}, xmax = 0 AS is_new, CAST(pg_catalog.txid_current() AS text) AS transaction`,
  ),
);

const advanceOfKnown = cached((table, count) => upsert(table, count, 'refused', textOf));
const advanceOfAny = cached((table, count) => upsert(table, count, 'compared', textOf));

/** PostgreSQL and PGlite: one statement, and another one for a new key. */
export const postgresFenceSql: FenceSql = {
  // fillfactor: room for updates inside the page, so that nearly all are HOT.
  // The floor is there from the start: a snapshot that is older than its row could not see it.
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL CHECK (token > 0),
  holder text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
INSERT INTO ${table} (resource, token) VALUES ('', 1) ON CONFLICT DO NOTHING;`,

  advance: (table, count) => [advance(table, count)],

  advanceAlone: (table, count, isKnown) => [
    (isKnown ? advanceOfKnown : advanceOfAny)(table, count),
  ],

  // In a query of its own, so that it is compared behind the wait for the lock.
  checkFloor: (table) =>
    `SELECT CASE WHEN token > CAST($2 AS bigint) THEN ${poison('CAST($1 AS text)', 'token', "''")} END AS floor FROM (SELECT token FROM ${table} WHERE resource = '' FOR SHARE) AS f`,

  // No savepoint: it would take a transaction number of its own. It also fails (25P02) in a transaction that can't commit any more.
  checkMark: ([row]) =>
    `SELECT ${numberIn(`CASE pg_catalog.txid_current() WHEN ${BigInt(String(row?.['transaction']))} THEN '1' ELSE '${ENDED}' END`)}`,
};
