import { choice, having } from '../../core/options/option-names.ts';
import { checkFenceArguments } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { isOutside } from '../drivers/mysql-fence.ts';
import { isInPostgresTransaction } from '../drivers/postgres-pool.ts';
import { outsideTransaction } from '../sql/advance-fence.ts';
import { resultRows, type SqlDialect } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of a Drizzle transaction that the fence uses. */
export interface DrizzleTransaction {
  /** A database has none. */
  rollback?(): unknown;
  execute(query: any): PromiseLike<any>;
  /** The session that has the client of the driver. */
  readonly session?: any;
}

/** The part of a Drizzle database (node-postgres, postgres.js, pglite, mysql2) that the fence uses. */
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

/** The options of {@link drizzleFence}. */
export interface DrizzleFenceOptions extends SqlFenceOptions {
  /** `sql` of drizzle-orm. */
  readonly sql: DrizzleSql;
  /** @default 'postgresql' */
  readonly dialect?: Exclude<SqlDialect, 'sqlite'>;
}

/**
 * The fence over Drizzle on PostgreSQL (node-postgres, postgres.js, PGlite) or MySQL (mysql2): `drizzleFence(db, { sql })`, with
 * `sql` of drizzle-orm. `tx` is the Drizzle transaction. For SQLite give the driver's connection to `sqliteFence`.
 *
 * @example
 * ```ts
 * import { sql } from 'drizzle-orm';
 * import { drizzle } from 'drizzle-orm/node-postgres';
 * import { drizzleFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = drizzleFence(drizzle('postgres://localhost/shop'), { sql });
 * await fence.transaction(token, (tx) => tx.execute(sql`UPDATE seat SET customer = ${'ana'} WHERE id = ${'12A'}`));
 * ```
 * @throws RedlockConfigError when `sql` is missing
 */
export function drizzleFence<Database extends DrizzleDatabase>(
  database: Database,
  options: DrizzleFenceOptions,
): Fence<DrizzleTransactionOf<Database>> {
  const needs = 'the database that drizzle(…) returned';
  const methods = ['transaction', 'execute'];
  // It is null in place of a missing tag, so that it is looked at.
  const given = { ...options, sql: options?.sql ?? null };
  const own = {
    dialect: choice('postgresql', 'mysql'),
    sql: having('raw', "give Drizzle's own: import { sql } from 'drizzle-orm'"),
  };
  const checked = checkFenceArguments('drizzleFence', database, methods, needs, given, own);
  const { dialect = 'postgresql' } = checked;
  const { sql } = options;
  return new SqlFence<DrizzleTransaction>(
    {
      dialect,
      database,
      executor: (transaction) => ({
        placeholder: 'question-mark',
        query: async (text, parameters) => {
          // Drizzle numbers the placeholders itself: the text between them goes in raw, each value as a parameter.
          const [start, ...others] = text.split('?').map((piece) => sql.raw(piece));
          const chunks = others.flatMap((raw, index) => [sql.param(parameters[index]), raw]);
          const query = sql.join([start, ...chunks]);
          const answer = await transaction.execute(query);
          // A transaction of Drizzle doesn't know that it is over.
          const status = transaction.session?.client?.getTransactionStatus?.();
          if (status === 'I' || isOutside(answer[0])) throw outsideTransaction([]);
          return resultRows(answer);
        },
      }),
      isTransaction: (transaction) => {
        if (typeof transaction.rollback !== 'function') return false;
        const client = transaction.session?.client;
        // A transaction of postgres.js doesn't know that it is over either, and its answers don't tell.
        return (
          typeof client?.unsafe !== 'function' ||
          isInPostgresTransaction({ query: (text: any) => client.unsafe(text) })
        );
      },
      run: (work, isolationLevel) =>
        database.transaction(work, isolationLevel ? { isolationLevel } : undefined),
    },
    options,
  ) as unknown as Fence<DrizzleTransactionOf<Database>>;
}
