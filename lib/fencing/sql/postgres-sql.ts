import { listOfClaims } from './claim-parameters.ts';
import type { FenceSql } from './dialect.ts';

/** In front of the facts in the error by which PostgreSQL refuses a stale token. */
export const POISON_PREFIX = 'redlock:stale:';

/** In the error by which PostgreSQL refuses to commit another transaction than that of the advance. */
export const ENDED = 'redlock:ended';

/** The row of a claim in a list of VALUES. */
export function postgresFenceRow(key: string, token: string, holder: string): string {
  return `(CAST(${key} AS text), CAST(${token} AS bigint), CAST(${holder} AS text))`;
}

/**
 * The advance as common table expressions, the last of which is named `fence` and has one row per claim.
 *
 * The upsert locks the rows until the transaction ends and returns what they then hold: this token, or what is newer. It never
 * lowers a token. It waits for a transaction that holds a row; READ COMMITTED then sees its result, stricter levels fail
 * with 40001 and are tried again.
 *
 * A stale claim makes the last one fail with 22P02 (a text that is no number), which aborts the whole transaction: a swallowed
 * error can't commit.
 * All claims of one token share token and holder, so the first claim's parameters stand for all.
 */
function fenceExpressions(table: string, count: number): string {
  return `fence_rows AS (
INSERT INTO ${table} AS f (resource, token, holder) VALUES ${listOfClaims(count, postgresFenceRow)}
ON CONFLICT (resource) DO UPDATE SET
  token = GREATEST(f.token, EXCLUDED.token),
  holder = CASE WHEN EXCLUDED.token > f.token THEN EXCLUDED.holder ELSE f.holder END
RETURNING resource, token, holder
), fence AS (
SELECT resource, holder, CASE WHEN token = CAST($2 AS bigint) AND holder = CAST($3 AS text) THEN token
  ELSE CAST('${POISON_PREFIX}' || CAST(json_build_array(resource, CAST(token AS text), holder) AS text) AS bigint) END AS token
FROM fence_rows)`;
}

/** The advance when no program looks at its rows: it also fails when the table didn't keep one of them. */
export function postgresFenceCheck(table: string, count: number): string {
  return `WITH ${fenceExpressions(table, count)}
SELECT CAST(CASE count(*) WHEN ${count} THEN CAST(min(token) AS text)
  ELSE 'the fence kept no row: does ${table} have a trigger or rule?' END AS bigint) AS token FROM fence`;
}

/** PostgreSQL and PGlite: one statement. */
export const postgresFenceSql: FenceSql = {
  // fillfactor: room for updates inside the page, so that nearly all are HOT. The rows are never deleted.
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL CHECK (token > 0),
  holder text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);`,

  advance: (table, count) => [
    `WITH ${fenceExpressions(table, count)} SELECT resource, CAST(token AS text) AS token, holder, CAST(txid_current() AS text) AS transaction FROM fence`,
  ],

  // No savepoint: it would take a transaction number of its own. It also fails (25P02) in a transaction that can't commit any more.
  checkMark: ([row]) =>
    `SELECT CAST(CASE txid_current() WHEN ${BigInt(String(row?.['transaction']))} THEN '1' ELSE '${ENDED}' END AS bigint)`,
};
