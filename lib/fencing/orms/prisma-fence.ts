import type { Duration } from '../../core/options/duration.ts';
import { choice, duration } from '../../core/options/option-names.ts';
import { checkFenceArguments, hasMethods } from '../fence-arguments.ts';
import type { Fence, IsolationLevel, SqlFenceOptions } from '../fence.ts';
import { driverPlaceholder, type SqlDialect } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of Prisma's transaction client that the fence uses. */
export interface PrismaTransaction {
  $queryRawUnsafe(sql: string, ...parameters: any[]): PromiseLike<any>;
  $executeRawUnsafe(sql: string, ...parameters: any[]): PromiseLike<any>;
}

/** The part of a PrismaClient that the fence uses. */
export interface PrismaDatabase extends PrismaTransaction {
  $transaction(work: any, options?: any): Promise<any>;
}

/** The transaction client of the user's own PrismaClient. */
export type PrismaTransactionOf<Database> = Omit<
  Database,
  '$connect' | '$disconnect' | '$on' | '$transaction' | '$extends' | '$use'
>;

/** The options of {@link prismaFence}. */
export interface PrismaFenceOptions extends SqlFenceOptions {
  /** The provider of the driver adapter. @default 'postgresql' */
  readonly dialect?: Exclude<SqlDialect, 'sqlite'>;
  /** The time that one run of the transaction may take in all (Prisma's `timeout`). @default Prisma's, 5 s */
  readonly timeout?: Duration;
  /** The time that it waits for a connection (Prisma's `maxWait`). @default Prisma's, 2 s */
  readonly maxWait?: Duration;
}

const ISOLATION: Readonly<Record<IsolationLevel, string>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
};

/**
 * The fence over Prisma 7 with a driver adapter. `tx` is the client of an interactive transaction.
 *
 * @example
 * ```ts
 * import { prismaFence } from 'nestjs-fenced-lock/fencing';
 *
 * // PrismaClient is what `prisma generate` wrote for you.
 * const fence = prismaFence(new PrismaClient({ adapter }), { timeout: '5s' });
 * await fence.transaction(token, (tx) => tx.seat.update({ where: { id: '12A' }, data: { customer: 'ana' } }));
 * ```
 */
export function prismaFence<Database extends PrismaDatabase>(
  prisma: Database,
  options: PrismaFenceOptions = {},
): Fence<PrismaTransactionOf<Database>> {
  const limit = duration(1);
  const own = { timeout: limit, maxWait: limit, dialect: choice('postgresql', 'mysql') };
  const [needs, methods] = ['a PrismaClient', ['$transaction']];
  const checked = checkFenceArguments('prismaFence', prisma, methods, needs, options, own);
  const { dialect = 'postgresql', ...limits } = checked;
  return new SqlFence<PrismaTransaction>(
    {
      dialect,
      database: prisma,
      executor: (transaction) => ({
        placeholder: driverPlaceholder(dialect),
        query: async (sql, parameters) => {
          // Prisma wants a statement that returns no rows to be an `execute`.
          if (/^(WITH|SELECT)| RETURNING /.test(sql))
            return transaction.$queryRawUnsafe(sql, ...parameters);
          await transaction.$executeRawUnsafe(sql, ...parameters);
          return [];
        },
      }),
      // Prisma takes it away from the client of a transaction.
      isTransaction: (transaction) =>
        hasMethods(transaction, ['$queryRawUnsafe']) && !('$connect' in transaction),
      run: (work, isolationLevel) =>
        prisma.$transaction(work, {
          ...limits,
          ...(isolationLevel && { isolationLevel: ISOLATION[isolationLevel] }),
        }),
    },
    options,
  ) as unknown as Fence<PrismaTransactionOf<Database>>;
}
