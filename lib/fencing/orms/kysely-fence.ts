import { choice } from '../../core/options/option-names.ts';
import { checkFenceArguments } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { driverPlaceholder, type SqlDialect } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of a Kysely transaction that the fence uses. */
export interface KyselyTransaction {
  readonly isTransaction: boolean;
  executeQuery(query: any): Promise<{ rows: any[] }>;
}

interface TransactionBuilder {
  setIsolationLevel(level: any): TransactionBuilder;
  execute(work: (transaction: any) => Promise<any>): Promise<any>;
}

/** The part of Kysely that the fence uses. */
export interface KyselyDatabase extends KyselyTransaction {
  transaction(): TransactionBuilder;
}

/** The transaction type of the user's own Kysely. */
export type KyselyTransactionOf<Database> = Database extends {
  transaction(): { execute(work: (transaction: infer Transaction) => Promise<any>): Promise<any> };
}
  ? Transaction
  : KyselyTransaction;

/** The options of {@link kyselyFence}: Kysely doesn't tell which database it speaks to. */
export interface KyselyFenceOptions extends SqlFenceOptions {
  /** @default 'postgresql' */
  readonly dialect?: SqlDialect;
}

/**
 * The fence over Kysely. `tx` is the Kysely transaction.
 *
 * @example
 * ```ts
 * import { Kysely, PostgresDialect } from 'kysely';
 * import { kyselyFence } from 'nestjs-fenced-lock/fencing';
 *
 * const database = new Kysely<{ seat: { id: string; customer: string } }>({ dialect: new PostgresDialect({ pool }) });
 * const fence = kyselyFence(database);
 * await fence.transaction(token, (trx) =>
 *   trx.updateTable('seat').set({ customer: 'ana' }).where('id', '=', '12A').execute(),
 * );
 * ```
 */
export function kyselyFence<Database extends KyselyDatabase>(
  database: Database,
  options: KyselyFenceOptions = {},
): Fence<KyselyTransactionOf<Database>> {
  const needs = 'a Kysely: new Kysely({ dialect })';
  const own = { dialect: choice('postgresql', 'mysql', 'sqlite') };
  const methods = ['transaction'];
  const checked = checkFenceArguments('kyselyFence', database, methods, needs, options, own);
  const { dialect = 'postgresql' } = checked;
  return new SqlFence<KyselyTransaction>(
    {
      dialect,
      database,
      executor: (transaction) => ({
        placeholder: driverPlaceholder(dialect),
        query: async (sql, parameters) => {
          // Copy of what `CompiledQuery.raw(sql, parameters)` of Kysely makes, so that nothing of it is imported.
          const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
          const compiled = { sql, parameters, query, queryId: { queryId: 'redlock-fence' } };
          return (await transaction.executeQuery(compiled)).rows;
        },
      }),
      isTransaction: (transaction) => transaction.isTransaction,
      run: (work, isolationLevel) => {
        const builder = database.transaction();
        return (isolationLevel ? builder.setIsolationLevel(isolationLevel) : builder).execute(work);
      },
    },
    options,
  ) as unknown as Fence<KyselyTransactionOf<Database>>;
}
