import { RedlockConfigError } from '../../core/errors.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import type { SqlDialect, SqlExecutor, SqlRow } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** What the fence needs of a Drizzle transaction. */
export interface DrizzleTransaction {
  execute(query: any): PromiseLike<any>;
}

/** What the fence needs of a Drizzle database (node-postgres, pglite, mysql2). */
export interface DrizzleDatabase extends DrizzleTransaction {
  transaction(work: (transaction: any) => Promise<any>, config?: any): Promise<any>;
}

/** The transaction type of the user's own database. */
export type DrizzleTransactionOf<Database> = Database extends {
  transaction(work: (transaction: infer Transaction) => Promise<any>, ...rest: any[]): Promise<any>;
}
  ? Transaction
  : DrizzleTransaction;

/** Drizzle's `sql` tag with its two parts, handed in so that nothing of Drizzle is imported here. */
export interface DrizzleSql {
  raw(text: string): any;
  param(value: unknown): any;
  join(chunks: any[], separator?: any): any;
}

/** Options of {@link drizzleFence}. */
export interface DrizzleFenceOptions extends SqlFenceOptions {
  /** `sql` of drizzle-orm. */
  readonly sql: DrizzleSql;
  /** @default 'postgresql' */
  readonly dialect?: Exclude<SqlDialect, 'sqlite'>;
}

/**
 * The fence over Drizzle on PostgreSQL (node-postgres, PGlite) or MySQL (mysql2): `drizzleFence(db, { sql })`, with `sql` of
 * drizzle-orm. `tx` is the Drizzle transaction. For SQLite give the driver's connection to `sqliteFence`.
 *
 * @throws RedlockConfigError when `sql` is missing
 */
export function drizzleFence<Database extends DrizzleDatabase>(
  database: Database,
  options: DrizzleFenceOptions,
): Fence<DrizzleTransactionOf<Database>> {
  const dialect = options?.dialect ?? 'postgresql';
  const { sql } = options ?? {};
  if (typeof sql?.raw !== 'function') {
    throw new RedlockConfigError(
      'sql',
      sql,
      "give Drizzle's own: import { sql } from 'drizzle-orm'",
    );
  }
  return new SqlFence<DrizzleTransactionOf<Database>>(
    {
      dialect,
      executor: (transaction) => executor(transaction as DrizzleTransaction, dialect, sql),
      run: (work, isolationLevel) =>
        database.transaction(work, isolationLevel ? { isolationLevel } : undefined),
    },
    options,
  );
}

/** Drizzle numbers the placeholders itself: the text between them goes in raw, each value as a parameter. */
function executor(
  transaction: DrizzleTransaction,
  dialect: SqlDialect,
  sql: DrizzleSql,
): SqlExecutor {
  return {
    dialect,
    placeholder: 'question-mark',
    query: async (text, parameters) => {
      const chunks = text
        .split('?')
        .flatMap((piece, index) =>
          index === 0 ? [sql.raw(piece)] : [sql.param(parameters[index - 1]), sql.raw(piece)],
        );
      return rowsOf(await transaction.execute(sql.join(chunks)));
    },
  };
}

/** node-postgres and PGlite return `{ rows }`, mysql2 `[rows, fields]`. */
function rowsOf(result: any): readonly SqlRow[] {
  if (!Array.isArray(result)) return result?.rows ?? [];
  return Array.isArray(result[0]) ? result[0] : [];
}
