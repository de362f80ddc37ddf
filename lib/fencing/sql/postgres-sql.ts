import type { SqlRow } from './sql-executor.ts';

/** The prefix of the facts in the error by which PostgreSQL refuses a stale token. */
export const POISON_PREFIX = 'redlock:stale:';

/** The mark in the error by which PostgreSQL refuses to commit another transaction than that of the advance. */
export const ENDED = 'redlock:ended';

/** It fails outside of a transaction, and costs nothing inside: every query takes this lock. */
export const FAILS_OUTSIDE = 'LOCK TABLE pg_catalog.pg_class IN ACCESS SHARE MODE';

/**
 * The number in a text, or the error 22P02. It is no cast, as a database can have its own from text to bigint, and that may be
 * lenient. A function that is called by its schema can't be replaced either.
 */
const numberIn = (text: string): string => `pg_catalog.int8in(pg_catalog.textout(${text}))`;

/** The error by which PostgreSQL refuses, with what is newer. */
const poison = (key: string, token: string, holder: string): string =>
  numberIn(
    `pg_catalog.concat('${POISON_PREFIX}', pg_catalog.json_build_array(${key}, CAST(${token} AS text), ${holder}))`,
  );

/**
 * Sets a time-out for waits between sessions, for this transaction. In a PGlite, also in one behind another client, it sets nothing
 * and `applied` is empty: nobody else can wait there, and such a time-out may stop the event loop of the process for good.
 */
export function setTimeLimit(setting: string, valueMs: number): string {
  return `SELECT CASE WHEN pg_catalog.strpos(pg_catalog.version(), 'emcc') > 0 THEN '' ELSE pg_catalog.set_config('${setting}', '${valueMs}', true) END AS applied`;
}

const CLOCK = 'CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()) * 1000000 AS pg_catalog.int8)';

/**
 * The advance of each claim, and what it returns of its row: this token, or an error.
 *
 * The upsert locks the rows until the transaction ends and returns what they then hold: this token, or what is newer. It never
 * lowers a token. It waits for a transaction that holds a row; READ COMMITTED then sees its result, stricter levels fail with
 * 40001 and are tried again. The age is compared behind that wait.
 *
 * A stale claim makes it fail with 22P02 (a text that is no number), which aborts the whole transaction: a swallowed error can't
 * commit. All claims of one token share token and holder, so the first claim's parameters stand for all.
 */
function advance(table: string, rows: string, oldest?: string): string {
  const refuseOld = () =>
    `CASE WHEN f.token < ${oldest} THEN ${poison('f.resource', oldest!, "''")} ELSE f.token END`;
  const token = oldest === undefined ? 'f.token' : refuseOld();
  const verdict = `CASE WHEN f.token = CAST($2 AS bigint) AND f.holder = CAST($3 AS text) THEN ${token}
  ELSE ${poison('f.resource', 'f.token', 'f.holder')} END`;
  // Some clients look for a RETURNING with a blank before it.
  return `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${rows}
ON CONFLICT (resource) DO UPDATE SET
  token = GREATEST(f.token, EXCLUDED.token),
  holder = CASE WHEN EXCLUDED.token > f.token THEN EXCLUDED.holder ELSE f.holder END
 RETURNING resource, CAST(${verdict} AS text) AS token, holder, CAST(pg_catalog.txid_current() AS text) AS transaction`;
}

/** PostgreSQL and PGlite: one statement. */
export const postgresFenceSql = {
  // The fill factor leaves room for updates inside the page, so that nearly all are HOT.
  ddl: (table: string) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL CHECK (token > 0),
  holder text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);`,

  clock: CLOCK,
  plainReads: 'read committed' as const,
  integer: 'bigint',
  text: (placeholder: string) => `CAST(${placeholder} AS text)`,
  advance: (table: string, rows: string, _keys: string, oldest?: string) => [
    advance(table, rows, oldest),
  ],

  // A savepoint would take a transaction number of its own. The SELECT also fails (25P02) in a transaction that can't commit any more.
  checkMark: ([row]: readonly SqlRow[]) =>
    `SELECT ${numberIn(`CASE pg_catalog.txid_current() WHEN ${BigInt(String(row?.['transaction']))} THEN '1' ELSE '${ENDED}' END`)}`,
};
