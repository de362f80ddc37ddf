import { checkFenceArguments } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { inTurn } from '../sql/in-turn.ts';
import { dialectNamed, driverPlaceholder, resultRows } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The part of a TypeORM EntityManager that the fence uses. */
export interface TypeormManager {
  readonly queryRunner?: { readonly isTransactionActive: boolean } | undefined;
  query(sql: string, parameters?: any[]): Promise<any>;
}

/** The part of a TypeORM DataSource that the fence uses. */
export interface TypeormDataSource {
  readonly options: { readonly type: string };
  transaction(work: (manager: any) => Promise<any>): Promise<any>;
  transaction(isolation: any, work: (manager: any) => Promise<any>): Promise<any>;
}

/** The manager type of the user's own data source. */
export type TypeormManagerOf<DataSource> = DataSource extends { readonly manager: infer Manager }
  ? Manager
  : TypeormManager;

/**
 * The fence over a TypeORM DataSource (postgres, mysql, mariadb, better-sqlite3). `tx` is the transaction's EntityManager.
 *
 * @example
 * ```ts
 * import { typeormFence } from 'nestjs-fenced-lock/fencing';
 * import { DataSource } from 'typeorm';
 *
 * const fence = typeormFence(new DataSource({ type: 'postgres', url: process.env.DATABASE_URL }));
 * await fence.transaction(token, (manager) => manager.update('Seat', '12A', { customer: 'ana' }));
 * ```
 * @throws RedlockConfigError for another type of database
 */
export function typeormFence<DataSource extends TypeormDataSource>(
  dataSource: DataSource,
  options?: SqlFenceOptions,
): Fence<TypeormManagerOf<DataSource>> {
  const needs = 'a DataSource of TypeORM';
  checkFenceArguments('typeormFence', dataSource, ['transaction', 'query'], needs, options);
  const dialect = dialectNamed('dataSource', dataSource.options.type);
  return new SqlFence<TypeormManager>(
    {
      dialect,
      database: dataSource,
      executor: (manager) => ({
        placeholder: driverPlaceholder(dialect),
        // Statements of the fence begin with WITH, INSERT or SELECT: TypeORM gives the rows of these (not `[rows, count]`).
        query: async (sql, parameters) => resultRows(await manager.query(sql, [...parameters])),
      }),
      isTransaction: (manager) => manager.queryRunner?.isTransactionActive === true,
      // On SQLite a data source has one connection, where a second transaction is a savepoint of the first.
      ...(dialect === 'sqlite' && { onlyConnection: dataSource }),
      run: (work, isolationLevel) => {
        const begin = () =>
          isolationLevel
            ? dataSource.transaction(isolationLevel.toUpperCase(), work)
            : dataSource.transaction(work);
        return dialect === 'sqlite' ? inTurn(dataSource, begin) : begin();
      },
    },
    options,
  ) as unknown as Fence<TypeormManagerOf<DataSource>>;
}
