import { RedlockConfigError } from '../../core/errors.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { isOutside } from '../drivers/mysql-fence.ts';
import { outsideTransaction } from '../sql/advance-fence.ts';
import { rowsOf, type SqlDialect } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** What the fence needs of a Drizzle transaction. */
export interface DrizzleTransaction {
  /** A database has none. */
  rollback?(): unknown;
  execute(query: any): PromiseLike<any>;
  /** Of node-postgres it has the client. */
  readonly session?: any;
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
  const { dialect = 'postgresql', sql } = options ?? {};
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
      executor: (transaction) => ({
        dialect,
        placeholder: 'question-mark',
        query: async (text, parameters) => {
          // Drizzle numbers the placeholders itself: the text between them goes in raw, each value as a parameter.
          const [start, ...others] = text.split('?').map((piece) => sql.raw(piece));
          const chunks = others.flatMap((raw, index) => [sql.param(parameters[index]), raw]);
          const query = sql.join([start, ...chunks]);
          const own = transaction as DrizzleTransaction;
          const answer = await own.execute(query);
          // A transaction of Drizzle doesn't know that it is over.
          const status = own.session?.client?.getTransactionStatus?.();
          if (status === 'I' || isOutside(answer[0])) throw outsideTransaction([]);
          return rowsOf(answer);
        },
      }),
      isTransaction: (transaction) =>
        typeof (transaction as DrizzleTransaction).rollback === 'function',
      run: (work, isolationLevel) =>
        database.transaction(work, isolationLevel ? { isolationLevel } : undefined),
    },
    options,
  );
}
