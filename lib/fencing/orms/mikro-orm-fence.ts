import { RedlockConfigError } from '../../core/errors.ts';
import { checkFenceArguments, hasMethods } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import type { SqlDialect } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of a MikroORM EntityManager that the fence uses. */
export interface MikroOrmEntityManager {
  fork(...rest: any[]): any;
  transactional(work: (entityManager: any) => any, options?: any): Promise<any>;
  getConnection(...rest: any[]): any;
  getTransactionContext(): any;
  isInTransaction(): boolean;
  getDriver(): any;
}

const DIALECTS: readonly (readonly [pattern: RegExp, dialect: SqlDialect])[] = [
  [/postgre/i, 'postgresql'],
  [/mysql|mariadb/i, 'mysql'],
  [/sqlite|libsql/i, 'sqlite'],
];

/**
 * The fence over MikroORM's EntityManager (PostgreSQL, MySQL, MariaDB, SQLite drivers). `tx` is the transaction's own fork: read
 * and persist through it, so that nothing comes from an identity map filled before the token reached the resource.
 *
 * @example
 * ```ts
 * import { MikroORM } from '@mikro-orm/core';
 * import { RedlockModule } from 'nestjs-fenced-lock';
 * import { mikroOrmFence } from 'nestjs-fenced-lock/fencing';
 *
 * RedlockModule.forRootAsync({
 *   inject: [MikroORM],
 *   useFactory: (orm: MikroORM) => ({ nodes: ['redis://localhost:6379'], fence: mikroOrmFence(orm.em) }),
 * });
 * ```
 * @throws RedlockConfigError for another driver
 */
export function mikroOrmFence<EntityManager extends MikroOrmEntityManager>(
  entityManager: EntityManager,
  options?: SqlFenceOptions,
): Fence<EntityManager> {
  const needs = 'an EntityManager of MikroORM: orm.em';
  checkFenceArguments('mikroOrmFence', entityManager, ['getDriver', 'fork'], needs, options);
  const driver = String(entityManager.getDriver()?.constructor?.name);
  const dialect = DIALECTS.find(([pattern]) => pattern.test(driver))?.[1];
  if (!dialect)
    throw new RedlockConfigError(
      'entityManager',
      driver,
      'the fence knows the PostgreSQL, MySQL, MariaDB and SQLite drivers',
    );
  return new SqlFence<EntityManager>(
    {
      dialect,
      database: entityManager,
      executor: (transaction) => ({
        placeholder: 'question-mark',
        // Straight to the connection: `em.execute` would first flush pending entities, before the token is checked.
        query: (sql, parameters) =>
          transaction
            .getConnection()
            .execute(sql, [...parameters], 'all', transaction.getTransactionContext()),
      }),
      isTransaction: (transaction) =>
        hasMethods(transaction, ['isInTransaction']) && transaction.isInTransaction(),
      run: (work, isolationLevel) =>
        entityManager
          .fork({ clear: true, useContext: false })
          .transactional(work, { clear: true, ...(isolationLevel && { isolationLevel }) }),
    },
    options,
  );
}
