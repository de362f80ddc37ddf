import { checkOptions, flag } from '../../core/options/option-names.ts';
import { SQL_FENCE_OPTIONS } from '../fence-arguments.ts';
import type { Fence, SqlFenceOptions } from '../fence.ts';
import { SqlFence } from '../sql/sql-fence.ts';
import {
  checkPostgresPool,
  isInPostgresTransaction,
  postgresExecutor,
  runPostgresTransaction,
  withClient,
  type PostgresClient,
  type PostgresPool,
} from './postgres-pool.ts';
import { watchPool } from './watch-pool.ts';

/** The client type of the user's own pool, so that `tx` has all methods of `pg`. */
export type PostgresClientOf<Pool> = Pool extends {
  connect: { (): Promise<infer Client>; (...rest: any[]): any };
}
  ? Client
  : Pool extends { connect(): Promise<infer Client> }
    ? Client
    : PostgresClient;

/** The options of the fence over a pool of `pg`. */
export interface PostgresFenceOptions extends SqlFenceOptions {
  /**
   * Sends the fence's own statements (of `transaction`, `advance` and `claim`) as prepared statements, which PostgreSQL parses
   * once per connection and soon stops planning. Leave it off behind a pooler in transaction mode that doesn't track prepared
   * statements, such as PgBouncer before 1.21.
   *
   * @default false
   */
  readonly prepared?: boolean;
}

/**
 * The fence over a pool of `pg`.
 *
 * `tx` is the pool's own client. One round trip is added to a transaction.
 *
 * @example
 * ```ts
 * import { postgresFence } from 'nestjs-fenced-lock/fencing';
 * import { Pool } from 'pg';
 *
 * const database = new Pool({ connectionString: process.env.DATABASE_URL });
 * database.on('error', () => undefined); // an idle connection that breaks is replaced, and must not end the process
 * const fence = postgresFence(database);
 * await fence.transaction(token, (client) =>
 *   client.query('UPDATE seat SET customer = $2 WHERE id = $1', ['12A', 'ana']),
 * );
 * ```
 * @throws RedlockConfigError when an option is wrong
 */
export function postgresFence<Pool extends PostgresPool>(
  pool: Pool,
  options: PostgresFenceOptions = {},
): Fence<PostgresClientOf<Pool>> {
  checkPostgresPool('postgresFence', pool);
  const known = { ...SQL_FENCE_OPTIONS, prepared: flag };
  const { prepared = false } = checkOptions('postgresFence', known, options);
  watchPool(pool);
  return new SqlFence<PostgresClient>(
    {
      dialect: 'postgresql',
      database: pool,
      executor: (client) => postgresExecutor((use) => use(client), prepared, true),
      autocommit: postgresExecutor((use) => withClient(pool, use), prepared, false),
      isTransaction: isInPostgresTransaction,
      run: (work, isolationLevel, commit) =>
        runPostgresTransaction(pool, work, isolationLevel, commit),
      checksAtCommit: true,
    },
    options,
  ) as unknown as Fence<PostgresClientOf<Pool>>;
}
