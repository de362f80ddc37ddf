import { checkFenceArguments } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { dialectNamed, resultRows } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of a Knex transaction that the fence uses. */
export interface KnexTransaction {
  readonly isTransaction?: boolean | undefined;
  isCompleted?(): boolean;
  raw(sql: string, bindings?: any): PromiseLike<any>;
}

/** The part of Knex that the fence uses. */
export interface KnexInstance {
  readonly client: any;
  raw(sql: string): any;
  transaction(work: (transaction: any) => Promise<any>, options?: any): Promise<any>;
}

/** The transaction type of the user's own Knex. */
export type KnexTransactionOf<Knex> = Knex extends {
  transactionProvider: (...rest: any[]) => () => Promise<infer Transaction>;
}
  ? Transaction
  : KnexTransaction;

/**
 * The fence over Knex (pg, mysql2, better-sqlite3). `tx` is the Knex transaction.
 *
 * @example
 * ```ts
 * import { knex } from 'knex';
 * import { knexFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = knexFence(knex({ client: 'pg', connection: process.env.DATABASE_URL }));
 * await fence.transaction(token, (trx) => trx('seat').where({ id: '12A' }).update({ customer: 'ana' }));
 * ```
 * @throws RedlockConfigError for another client
 */
export function knexFence<Knex extends KnexInstance>(
  knex: Knex,
  options?: SqlFenceOptions,
): Fence<KnexTransactionOf<Knex>> {
  const needs = 'a Knex: knex({ client, connection })';
  checkFenceArguments('knexFence', knex, ['transaction', 'raw'], needs, options);
  const dialect = dialectNamed('knex', String(knex.client?.config?.client));
  return new SqlFence<KnexTransaction>(
    {
      dialect,
      database: knex,
      ...(knex.client.pool?.max === 1 && { onlyConnection: knex }),
      executor: (transaction) => ({
        placeholder: 'question-mark',
        query: async (sql, parameters) => resultRows(await transaction.raw(sql, [...parameters])),
      }),
      isTransaction: (transaction) =>
        transaction.isTransaction === true && transaction.isCompleted?.() !== true,
      run: async (work, isolationLevel) => {
        const settings = isolationLevel ? { isolationLevel } : {};
        if (dialect !== 'sqlite') return knex.transaction(work, settings);
        // A COMMIT that finds the file busy leaves the transaction open, and Knex would give its connection to the next caller.
        const connection = await knex.client.acquireConnection();
        try {
          return await knex.transaction(work, { ...settings, connection });
        } catch (error) {
          await knex
            .raw('ROLLBACK')
            .connection(connection)
            .catch(() => undefined);
          throw error;
        } finally {
          knex.client.releaseConnection(connection);
        }
      },
    },
    options,
  ) as unknown as Fence<KnexTransactionOf<Knex>>;
}
