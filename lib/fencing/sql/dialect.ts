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
 */
export interface FenceSql {
  /** Creates the table; safe to run again. */
  ddl(table: string): string;
  /** @param count of the claims, at least one */
  advance(table: string, count: number): readonly string[];
  /** Of keys and holders in its parameters. */
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
  const sql = DIALECTS[dialect];
  if (sql === undefined) {
    throw new FencedUsageError(
      `The fence speaks ${Object.keys(DIALECTS).join(', ')}, not '${String(dialect)}'.`,
    );
  }
  return sql;
}

export function advanceStatements(
  dialect: SqlDialect,
  table: string,
  claims: readonly FenceClaim[],
): readonly SqlStatement[] {
  const fenceSql = fenceSqlOf(dialect);
  const parameters = claimParameters(claims, fenceSql.encode);
  return fenceSql.advance(table, claims.length).map((sql) => ({ sql, parameters }));
}

/**
 * A table name fit to stand in SQL unquoted.
 * @throws RedlockConfigError for anything else, also what would need quotes
 */
export function fenceTable(table: string = 'redlock_fence'): string {
  if (/^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/.test(table)) return table;
  throw new RedlockConfigError(
    'table',
    table,
    "use letters, digits and '_', with at most one schema in front ('app.redlock_fence')",
  );
}
