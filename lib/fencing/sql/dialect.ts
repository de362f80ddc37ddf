import type { FenceClaim } from '../fence-claim.ts';
import type { IsolationLevel } from '../fence.ts';
import { postgresFenceSql } from './postgres-sql.ts';
import type { SqlDialect, SqlRow } from './sql-executor.ts';

/**
 * The SQL of one dialect. Its parameters are key, token and holder of each claim, in the order of their keys. `advance` runs
 * statement by statement on one connection; the last one returns a row `(resource, token, holder)`, all text, for each claim:
 * what the fence holds afterwards. A claim whose row shows another token or holder is stale.
 *
 * A claim whose token is smaller than `oldest`, by the clock of the database behind its wait for the row, is stale, too: the rows
 * have that as text in `oldest`, or the statement fails.
 */
export interface FenceSql {
  /** Creates the table; it is safe to run again. */
  ddl(table: string): string;
  /**
   * @param rows of the claims, for VALUES
   * @param keys of the claims, for IN
   * @param oldest the oldest token that is admitted, when the fence has a `maxAge`
   */
  advance(table: string, rows: string, keys: string, oldest?: string): readonly string[];
  /** Microseconds since 1970 by the clock of the database, now: not when the transaction began. */
  readonly clock: string;
  /** The isolation level whose reads lock nothing, also where the default of the database is stricter. */
  readonly plainReads?: IsolationLevel;
  /** The type of tokens. */
  readonly integer: string;
  /** A key or holder, from its parameter. */
  readonly text: (placeholder: string) => string;
  /** Encodes keys and holders for its parameters, and keys as the rows of `advance` have them. */
  readonly encode?: (text: string) => string;
  /** Runs after `advance`, where the rows of that don't tell transactions apart. */
  readonly mark?: string;
  /** Fails before the commit unless the transaction is still the one that gave these rows of `advance`. */
  checkMark(rows: readonly SqlRow[]): string;
}

/** MariaDB and MySQL: two statements on one connection, inside a transaction. */
const mysqlFenceSql: FenceSql = {
  // The columns are binary: no collation may take two keys for one, nor ignore a trailing space.
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource VARBINARY(2500) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0),
  holder VARBINARY(255) NOT NULL DEFAULT ''
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;`,

  // It is UTC, as one hour of local time comes twice a year.
  clock: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
  plainReads: 'repeatable read',
  integer: 'SIGNED',

  // mysql2 and ORMs over it put parameters into the text, with backslashes that NO_BACKSLASH_ESCAPES takes literally. The
  // character set of the connection may lack some of a key.
  encode: (text) => Buffer.from(text).toString('hex'),
  text: (placeholder) => `UNHEX(${placeholder})`,

  // A savepoint ends with its transaction: with a deadlock whose error was swallowed, or a statement that commits implicitly.
  mark: 'SAVEPOINT redlock_fence',
  checkMark: () => 'RELEASE SAVEPOINT redlock_fence',

  advance: (table, rows, keys, oldest) => [
    // Assignments run from left to right: that of the holder comes first, while the token is still the old one.
    `INSERT INTO ${table} (resource, token, holder) VALUES ${rows}
ON DUPLICATE KEY UPDATE
  holder = IF(VALUES(token) > token, VALUES(holder), holder),
  token = GREATEST(token, VALUES(token))`,
    // A locking read sees the newest rows, whatever the snapshot. The count of affected rows would say nothing.
    `SELECT LOWER(HEX(resource)) AS resource, CAST(token AS CHAR) AS token,
  CONVERT(holder USING utf8mb4) AS holder${oldest ? `,\n  CAST(${oldest} AS CHAR) AS oldest` : ''}
FROM ${table} WHERE resource IN (${keys}) ORDER BY ${table}.resource FOR UPDATE`,
  ],
};

/** SQLite 3.35 or newer (RETURNING): one statement, best in a transaction begun with BEGIN IMMEDIATE. */
const sqliteFenceSql: FenceSql = {
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource TEXT NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (token > 0),
  holder TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;`,

  clock: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
  integer: 'INTEGER',
  text: (placeholder) => placeholder,

  // A savepoint ends with its transaction, such as by an INSERT OR ROLLBACK whose error was swallowed.
  mark: 'SAVEPOINT redlock_fence',
  checkMark: () => 'RELEASE SAVEPOINT redlock_fence',

  // MikroORM 6 looks for RETURNING with a blank before it, to know that there are rows.
  advance: (table, rows, _keys, oldest) => [
    `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${rows}
ON CONFLICT (resource) DO UPDATE SET
  holder = CASE WHEN excluded.token > f.token THEN excluded.holder ELSE f.holder END,
  token = MAX(f.token, excluded.token) RETURNING resource, CAST(token AS TEXT) AS token, holder${oldest ? `,\n  CAST(${oldest} AS TEXT) AS oldest` : ''}`,
  ],
};

/**
 * A statement that changes rows, as each driver runs a query. On SQLite, better-sqlite3 has another method for a statement without
 * rows; and when DELETE comes first, MikroORM 6 leaves the statement open, and no later transaction works.
 */
export function asQuery(dialect: SqlDialect, sql: string): string {
  return dialect === 'sqlite' ? `WITH none AS (SELECT 1) ${sql} RETURNING 1` : sql;
}

export const FENCE_SQL: Readonly<Record<SqlDialect, FenceSql>> = {
  postgresql: postgresFenceSql,
  mysql: mysqlFenceSql,
  sqlite: sqliteFenceSql,
};

/** The table of a fence. */
export interface FenceTable {
  readonly dialect: SqlDialect;
  readonly name: string;
  /** Older tokens are refused. */
  readonly maxAgeMs?: number | undefined;
}

/** The statements of the advance, and the parameters of each. */
export function advanceStatements(
  { dialect, name, maxAgeMs }: FenceTable,
  claims: readonly FenceClaim[],
): { readonly statements: readonly string[]; readonly parameters: readonly string[] } {
  const sql = FENCE_SQL[dialect];
  const keys = claims.map((_claim, index) => sql.text(`$${index * 3 + 1}`)).join(', ');
  const oldest = maxAgeMs === undefined ? undefined : `${sql.clock} - ${maxAgeMs}000`;
  const { rows, parameters } = claimRows(sql, claims);
  return { statements: sql.advance(name, rows, keys, oldest), parameters };
}

/** The claims as a list for VALUES, with its parameters. */
export function claimRows(
  { text, integer, encode = (plain) => plain }: FenceSql,
  claims: readonly FenceClaim[],
): { readonly rows: string; readonly parameters: readonly string[] } {
  const row = (first: number): string =>
    `(${text(`$${first}`)}, CAST($${first + 1} AS ${integer}), ${text(`$${first + 2}`)})`;
  return {
    rows: claims.map((_claim, index) => row(index * 3 + 1)).join(', '),
    parameters: claims.flatMap(({ key, token, holder }) => [encode(key), token, encode(holder)]),
  };
}
