import {
  listOfClaims,
  claimParameters,
  type SqlDialect,
  type SqlRow,
  type SqlStatement,
} from './sql-executor.ts';
import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import type { FenceClaim } from '../fence-claim.ts';
import { postgresFenceSql } from './postgres-sql.ts';

/**
 * The SQL of one dialect. Its parameters are key, token and holder of each claim, in the order of their keys. `advance` runs
 * statement by statement on one connection; the last one returns a row `(resource, token, holder)`, all text, for each claim:
 * what the fence holds afterwards. A claim whose row shows another token or holder is stale.
 *
 * The row of the key '' has the floor of the table: the smallest token that was not pruned. A claim below it is stale. The
 * rows of `advance` have it as text in `floor`, or say in `is_new` that it is still to be checked.
 */
export interface FenceSql {
  /** Creates the table; safe to run again. */
  ddl(table: string): string;
  /** @param count of the claims, at least one */
  advance(table: string, count: number): readonly string[];
  /**
   * Where `advance` is not enough for a transaction of its own.
   * @param isKnown the rows should be there: one that is new may make it fail (`isNewRowError`)
   */
  advanceAlone?(table: string, count: number, isKnown: boolean): readonly string[];
  /** Fails when the floor is above the token in its second parameter, for the new key in its first. */
  checkFloor?(table: string): string;
  /** Of keys and holders in its parameters, and of keys in the rows of `advance`. */
  readonly encode?: (text: string) => string;
  /** Runs after `advance`, where the rows of that don't tell transactions apart. */
  readonly mark?: string;
  /** Fails before the commit unless the transaction is still the one that gave these rows of `advance`. */
  checkMark(rows: readonly SqlRow[]): string;
}

/** MariaDB and MySQL: two statements on one connection, inside a transaction. */
export const mysqlFenceSql: FenceSql = {
  // Binary columns: no collation may take two keys for one, nor ignore a trailing space.
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource VARBINARY(2500) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0),
  holder VARBINARY(255) NOT NULL DEFAULT ''
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC SELECT '' AS resource, 1 AS token, '' AS holder;`,

  // mysql2 and ORMs over it put parameters into the text, with backslashes that NO_BACKSLASH_ESCAPES takes literally. The
  // character set of the connection may lack some of a key.
  encode: (text) => Buffer.from(text).toString('hex'),

  // A savepoint ends with its transaction: with a deadlock whose error was swallowed, or a statement that commits implicitly.
  mark: 'SAVEPOINT redlock_fence',
  checkMark: () => 'RELEASE SAVEPOINT redlock_fence',

  advance(table, count) {
    const rows = listOfClaims(
      count,
      (key, token, holder) => `(UNHEX(${key}), CAST(${token} AS SIGNED), UNHEX(${holder}))`,
    );
    const keys = listOfClaims(count, (key) => `UNHEX(${key})`);
    return [
      // Assignments run left to right: holder first, while token is still the old one.
      `INSERT INTO ${table} (resource, token, holder) VALUES ${rows}
ON DUPLICATE KEY UPDATE
  holder = IF(VALUES(token) > token, VALUES(holder), holder),
  token = GREATEST(token, VALUES(token))`,
      // Locking reads see the newest rows whatever the snapshot. The count of affected rows says nothing here.
      `SELECT LOWER(HEX(resource)) AS resource, CAST(token AS CHAR) AS token,
  CONVERT(holder USING utf8mb4) AS holder,
  (SELECT CAST(f.token AS CHAR) FROM ${table} AS f WHERE f.resource = '' LOCK IN SHARE MODE) AS floor
FROM ${table} WHERE resource IN (${keys}) ORDER BY ${table}.resource FOR UPDATE`,
    ];
  },
};

/** SQLite 3.35 or newer (RETURNING): one statement, best in a transaction begun with BEGIN IMMEDIATE. */
export const sqliteFenceSql = {
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource TEXT NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (token > 0),
  holder TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;`,

  // It ends with its transaction, such as by INSERT OR ROLLBACK whose error was swallowed.
  mark: 'SAVEPOINT redlock_fence',
  checkMark: () => 'RELEASE SAVEPOINT redlock_fence',

  advance(table, count) {
    const rows = listOfClaims(
      count,
      (key, token, holder) => `(${key}, CAST(${token} AS INTEGER), ${holder})`,
    );
    return [
      // MikroORM 6 looks for RETURNING with a blank before it, to know that there are rows.
      `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${rows}
ON CONFLICT (resource) DO UPDATE SET
  holder = CASE WHEN excluded.token > f.token THEN excluded.holder ELSE f.holder END,
  token = MAX(f.token, excluded.token) RETURNING resource, CAST(token AS TEXT) AS token, holder,
  (SELECT CAST(token AS TEXT) FROM ${table} WHERE resource = '') AS floor`,
    ];
  },
} satisfies FenceSql;

const DIALECTS: Readonly<Record<SqlDialect, FenceSql>> = {
  postgresql: postgresFenceSql,
  mysql: mysqlFenceSql,
  sqlite: sqliteFenceSql,
};

export function fenceSqlOf(dialect: SqlDialect): FenceSql {
  const sql = Object.hasOwn(DIALECTS, dialect) ? DIALECTS[dialect] : undefined;
  if (sql === undefined) {
    throw new FencedUsageError(
      `The fence speaks ${Object.keys(DIALECTS).join(', ')}, not '${String(dialect)}'. Give one of them as the option dialect.`,
    );
  }
  return sql;
}

/** @param alone each statement is a transaction of its own; `isKnown` as in `advanceAlone` */
export function advanceStatements(
  dialect: SqlDialect,
  table: string,
  claims: readonly FenceClaim[],
  alone?: { readonly isKnown: boolean },
): readonly SqlStatement[] {
  const fenceSql = fenceSqlOf(dialect);
  const parameters = claimParameters(claims, fenceSql.encode);
  const { length } = claims;
  const texts = alone && fenceSql.advanceAlone?.(table, length, alone.isKnown);
  return (texts ?? fenceSql.advance(table, length)).map((sql) => ({ sql, parameters }));
}

/**
 * A table name fit to stand in SQL unquoted.
 * @throws RedlockConfigError for anything else, also what would need quotes
 */
export function fenceTable(table: string = 'redlock_fence'): string {
  const isName = /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/;
  if (typeof table === 'string' && isName.test(table)) return table;
  throw new RedlockConfigError(
    'table',
    table,
    "use letters, digits and '_', with at most one schema in front ('app.redlock_fence')",
  );
}
