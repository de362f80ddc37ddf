import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import type { FenceClaim } from '../fence-claim.ts';
import { claimParameters } from './claim-parameters.ts';
import { mysqlFenceSql } from './mysql-sql.ts';
import { postgresFenceSql } from './postgres-sql.ts';
import type { SqlDialect, SqlRow, SqlStatement } from './sql-executor.ts';
import { sqliteFenceSql } from './sqlite-sql.ts';

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
  /** Where `advance` is not enough for a transaction of its own. */
  advanceAlone?(table: string, count: number): readonly string[];
  /** Fails when the floor is above the token in its second parameter, for the new key in its first. */
  checkFloor?(table: string): string;
  /** Of keys and holders in its parameters, and of keys in the rows of `advance`. */
  readonly encode?: (text: string) => string;
  /** Runs after `advance`, where the rows of that don't tell transactions apart. */
  readonly mark?: string;
  /** Fails before the commit unless the transaction is still the one that gave these rows of `advance`. */
  checkMark(rows: readonly SqlRow[]): string;
}

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

/** @param isAlone each statement is a transaction of its own */
export function advanceStatements(
  dialect: SqlDialect,
  table: string,
  claims: readonly FenceClaim[],
  isAlone = false,
): readonly SqlStatement[] {
  const fenceSql = fenceSqlOf(dialect);
  const parameters = claimParameters(claims, fenceSql.encode);
  const alone = isAlone ? fenceSql.advanceAlone?.(table, claims.length) : undefined;
  return (alone ?? fenceSql.advance(table, claims.length)).map((sql) => ({ sql, parameters }));
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
