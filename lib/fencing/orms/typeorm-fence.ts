import { RedlockConfigError } from '../../core/errors.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import type { PlaceholderStyle, SqlDialect, SqlExecutor } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** What the fence needs of a TypeORM EntityManager. */
export interface TypeormManager {
  query(sql: string, parameters?: any[]): Promise<any>;
}

/** What the fence needs of a TypeORM DataSource. */
export interface TypeormDataSource {
  readonly options: { readonly type: string };
  transaction(work: (manager: any) => Promise<any>): Promise<any>;
  transaction(isolation: any, work: (manager: any) => Promise<any>): Promise<any>;
}

/** The manager type of the user's own data source. */
export type TypeormManagerOf<DataSource> = DataSource extends { readonly manager: infer Manager }
  ? Manager
  : TypeormManager;

/** TypeORM's names of databases, with what the fence speaks there. */
const DIALECTS: Readonly<Record<string, readonly [SqlDialect, PlaceholderStyle]>> = {
  postgres: ['postgresql', 'numbered'],
  mysql: ['mysql', 'question-mark'],
  mariadb: ['mysql', 'question-mark'],
  'better-sqlite3': ['sqlite', 'question-mark'],
};

/**
 * The fence over a TypeORM DataSource (postgres, mysql, mariadb, better-sqlite3). `tx` is the transaction's EntityManager.
 *
 * @throws RedlockConfigError for another type of database
 */
export function typeormFence<DataSource extends TypeormDataSource>(
  dataSource: DataSource,
  options?: SqlFenceOptions,
): Fence<TypeormManagerOf<DataSource>> {
  const spoken = DIALECTS[dataSource.options.type];
  if (!spoken) {
    throw new RedlockConfigError(
      'dataSource',
      dataSource.options.type,
      `the fence knows ${Object.keys(DIALECTS).join(', ')}`,
    );
  }
  const [dialect, placeholder] = spoken;
  const executor = (manager: TypeormManager): SqlExecutor => ({
    dialect,
    placeholder,
    query: async (sql, parameters) => rowsOf(await manager.query(sql, [...parameters])),
  });
  return new SqlFence<TypeormManagerOf<DataSource>>(
    {
      dialect,
      executor: (manager) => executor(manager as TypeormManager),
      run: (work, isolationLevel) =>
        isolationLevel
          ? dataSource.transaction(isolationLevel.toUpperCase(), work)
          : dataSource.transaction(work),
    },
    options,
  );
}

/** Our statements begin with WITH, INSERT or SELECT, for which TypeORM returns the rows (not `[rows, count]`). */
function rowsOf(result: unknown): readonly any[] {
  return Array.isArray(result) ? result : [];
}
