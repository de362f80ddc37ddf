import { checkFenceArguments, hasMethods, refuseClient } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { outsideTransaction } from '../sql/advance-fence.ts';
import { resultRows } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';
import { watchQueue } from './watch-pool.ts';

/** The part of a connection of `mysql2/promise` that the fence uses. */
export interface MysqlConnection {
  query(sql: any, parameters?: any): Promise<[any, any]>;
  release(): void;
  destroy(): void;
}

/** The part of a pool of `mysql2/promise` that the fence uses. */
export interface MysqlPool<Connection extends MysqlConnection> {
  getConnection(): Promise<Connection>;
  on?(event: 'enqueue', listener: () => void): unknown;
}

const SERVER_STATUS_IN_TRANS = 1;

/** Whether no transaction was open after the statement without rows that was answered so. */
export function isOutside({ serverStatus }: { readonly serverStatus?: number } = {}): boolean {
  return serverStatus !== undefined && (serverStatus & SERVER_STATUS_IN_TRANS) === 0;
}

/**
 * The fence over a promise pool of `mysql2`, for MariaDB and MySQL (InnoDB).
 *
 * `tx` is the pool's own connection. Five round trips are added to a transaction. In your own transaction `advance` must be
 * literally the first statement: under REPEATABLE READ any plain SELECT before it freezes what later ones see.
 *
 * @example
 * ```ts
 * import { createPool } from 'mysql2/promise';
 * import { mysqlFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = mysqlFence(createPool('mysql://localhost/shop'));
 * await fence.transaction(token, (connection) =>
 *   connection.execute('UPDATE seat SET customer = ? WHERE id = ?', ['ana', '12A']),
 * );
 * ```
 */
export function mysqlFence<Connection extends MysqlConnection>(
  pool: MysqlPool<Connection>,
  options?: SqlFenceOptions,
): Fence<Connection> {
  const needs = 'a pool of promises: createPool of mysql2/promise';
  checkFenceArguments('mysqlFence', pool, ['getConnection'], needs, options);
  // A pool with callbacks, which would never call back.
  if ('promise' in pool) refuseClient('mysqlFence', pool, needs);
  watchQueue(pool);
  return new SqlFence<Connection>(
    {
      dialect: 'mysql',
      database: pool,
      executor: (connection) => ({
        placeholder: 'question-mark',
        query: async (sql, parameters) => {
          const rowShape = { rowsAsArray: false, nestTables: false };
          const [result, fields] = await connection.query({ sql, ...rowShape }, [...parameters]);
          if (isOutside(result)) throw outsideTransaction([]);
          return resultRows([result, fields]);
        },
      }),
      // The answer to the first statement tells (see the executor). A pool may send each statement on another connection.
      isTransaction: (connection) =>
        hasMethods(connection, ['query']) && !('getConnection' in connection),
      async run(work, isolationLevel) {
        const connection = await pool.getConnection();
        const send = (sql: string) => connection.query(sql);
        let isUsable = true;
        try {
          // START TRANSACTION won't do: after a deadlock whose error was swallowed, statements would commit themselves.
          const [answer] = await send('SET @redlock_fence_ac = @@autocommit, autocommit = 0');
          // An earlier user of the connection left a transaction open: its snapshot is old and its writes are half done.
          if (!isOutside(answer)) await send('ROLLBACK');
          const level = isolationLevel?.toUpperCase();
          // A level without SESSION or GLOBAL is for the next transaction only.
          if (level) await send(`SET TRANSACTION ISOLATION LEVEL ${level}`);
          const result = await work(connection);
          await send('COMMIT');
          return result;
        } catch (error) {
          await send('ROLLBACK').catch(() => (isUsable = false));
          throw error;
        } finally {
          if (isUsable)
            await send('SET autocommit = @redlock_fence_ac').catch(() => (isUsable = false));
          if (isUsable) connection.release();
          else connection.destroy();
        }
      },
    },
    options,
  );
}
