import type { Duration } from '../../core/options/duration.ts';
import { durationMs } from '../../core/options/duration.ts';
import { checkFenceArguments, hasMethods, SQL_FENCE_OPTIONS } from '../fence-arguments.ts';
import type { Fence, IsolationLevel, SqlFenceOptions } from '../fence.ts';
import {
  dialectOf,
  driverPlaceholder,
  SERVER_DIALECTS,
  type SqlDialect,
} from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** Part of Prisma's transaction client that the fence uses. */
export interface PrismaTransaction {
  $queryRawUnsafe(sql: string, ...parameters: any[]): PromiseLike<any>;
  $executeRawUnsafe(sql: string, ...parameters: any[]): PromiseLike<any>;
}

/** Part of a PrismaClient that the fence uses. */
export interface PrismaDatabase extends PrismaTransaction {
  $transaction(work: any, options?: any): Promise<any>;
}

/** The transaction client of the user's own PrismaClient. */
export type PrismaTransactionOf<Database> = Omit<
  Database,
  '$connect' | '$disconnect' | '$on' | '$transaction' | '$extends' | '$use'
>;

/** Options of {@link prismaFence}. */
export interface PrismaFenceOptions extends SqlFenceOptions {
  /** The provider of the driver adapter. @default 'postgresql' */
  readonly dialect?: Exclude<SqlDialect, 'sqlite'>;
  /** Time that one run of the transaction may take in all (Prisma's `timeout`). @default Prisma's, 5 s */
  readonly timeout?: Duration;
  /** Time that it waits for a connection (Prisma's `maxWait`). @default Prisma's, 2 s */
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
  const known = [...SQL_FENCE_OPTIONS, 'dialect', 'timeout', 'maxWait'];
  checkFenceArguments('prismaFence', prisma, ['$transaction'], 'a PrismaClient', options, known);
  const { dialect: name = 'postgresql' } = options;
  const dialect = dialectOf('dialect', name, SERVER_DIALECTS);
  const { timeout, maxWait } = options;
  const limits = {
    ...(timeout !== undefined && { timeout: durationMs('timeout', timeout, 1) }),
    ...(maxWait !== undefined && { maxWait: durationMs('maxWait', maxWait, 1) }),
  };
  return new SqlFence<PrismaTransactionOf<Database>>(
    {
      dialect,
      database: prisma,
      executor: (transaction) => ({
        placeholder: driverPlaceholder(dialect),
        query: async (sql, parameters) => {
          const client = transaction as unknown as PrismaTransaction;
          // Prisma wants a statement that returns no rows to be an `execute`.
          if (/^(WITH|SELECT)| RETURNING /.test(sql))
            return client.$queryRawUnsafe(sql, ...parameters);
          await client.$executeRawUnsafe(sql, ...parameters);
          return [];
        },
      }),
      // Prisma takes it away from the client of a transaction.
      isTransaction: (transaction) =>
        hasMethods(transaction, ['$queryRawUnsafe']) && !('$connect' in (transaction as object)),
      run: (work, isolationLevel) =>
        prisma.$transaction(work, {
          ...limits,
          ...(isolationLevel && { isolationLevel: ISOLATION[isolationLevel] }),
        }),
    },
    options,
  );
}
