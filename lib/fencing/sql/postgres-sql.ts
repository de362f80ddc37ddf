import { listOfClaims } from './sql-executor.ts';
import type { FenceSql } from './dialect.ts';

/** In front of the facts in the error by which PostgreSQL refuses a stale token. */
export const POISON_PREFIX = 'redlock:stale:';

/** In the error by which PostgreSQL refuses to commit another transaction than that of the advance. */
export const ENDED = 'redlock:ended';

/** The row of a claim in a list of VALUES. */
export function postgresFenceRow(key: string, token: string, holder: string): string {
  return `(CAST(${key} AS text), CAST(${token} AS bigint), CAST(${holder} AS text))`;
}

/** The error by which PostgreSQL refuses, with what is newer. */
const poison = (key: string, token: string, holder: string): string =>
  `CAST('${POISON_PREFIX}' || CAST(json_build_array(${key}, CAST(${token} AS text), ${holder}) AS text) AS bigint)`;

/** The lock makes a snapshot that is older than the last prune fail, or the row be read again. */
const lockedFloor = (table: string): string =>
  `SELECT token FROM ${table} WHERE resource = '' FOR SHARE`;

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
 *
 * @param isWhole checks rows that are new (they have no xmax) against the floor, too, which takes longer to plan
 */
function fenceExpressions(table: string, count: number, isWhole: boolean): string {
  const floor = `CASE WHEN xmax = 0 THEN (${lockedFloor(table)}) END AS floor`;
  const refusal = isWhole
    ? poison(
        'resource',
        'GREATEST(token, floor)',
        "CASE WHEN floor > token THEN '' ELSE holder END",
      )
    : poison('resource', 'token', 'holder');
  return `fence_rows AS (
INSERT INTO ${table} AS f (resource, token, holder) VALUES ${listOfClaims(count, postgresFenceRow)}
ON CONFLICT (resource) DO UPDATE SET
  token = GREATEST(f.token, EXCLUDED.token),
  holder = CASE WHEN EXCLUDED.token > f.token THEN EXCLUDED.holder ELSE f.holder END
RETURNING resource, token, holder, ${isWhole ? floor : 'xmax = 0 AS is_new'}
), fence AS (
SELECT resource, holder, ${isWhole ? 'floor' : 'is_new'}, CASE WHEN token = CAST($2 AS bigint) AND holder = CAST($3 AS text)${isWhole ? ' AND token >= COALESCE(floor, 0)' : ''} THEN token
  ELSE ${refusal} END AS token
FROM fence_rows)`;
}

/** The advance when no program looks at its rows: it also fails when the table didn't keep one of them. */
export function postgresFenceCheck(table: string, count: number): string {
  return `WITH ${fenceExpressions(table, count, true)}
SELECT CAST(CASE count(*) WHEN ${count} THEN CAST(min(token) AS text)
  ELSE 'the fence kept no row: does ${table} have a trigger or rule?' END AS bigint) AS token FROM fence`;
}

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

  advance: (table, count) => [
    `WITH ${fenceExpressions(table, count, false)} SELECT resource, CAST(token AS text) AS token, holder, is_new, CAST(txid_current() AS text) AS transaction FROM fence`,
  ],

  advanceAlone: (table, count) => [
    `WITH ${fenceExpressions(table, count, true)} SELECT resource, CAST(token AS text) AS token, holder FROM fence`,
  ],

  checkFloor: (table) =>
    `SELECT CASE WHEN token > CAST($2 AS bigint) THEN ${poison('CAST($1 AS text)', 'token', "''")} END AS floor FROM (${lockedFloor(table)}) AS f`,

  // No savepoint: it would take a transaction number of its own. It also fails (25P02) in a transaction that can't commit any more.
  checkMark: ([row]) =>
    `SELECT CAST(CASE txid_current() WHEN ${BigInt(String(row?.['transaction']))} THEN '1' ELSE '${ENDED}' END AS bigint)`,
};
