import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import { advanceStatement } from '../sql/advance-statement.ts';
import type { Fence, FenceKeys, FenceToken, SqlFenceOptions } from '../fence.ts';
import { fenceClaims } from '../fence-claim.ts';
import {
  clientExecutor,
  runPostgresTransaction,
  type PostgresClient,
  type PostgresPool,
} from './postgres-pool.ts';
import type { SqlRow } from '../sql/sql-executor.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The client type of the user's own pool, so that `tx` has all methods of `pg`. */
export type PostgresClientOf<Pool> = Pool extends {
  connect: { (): Promise<infer Client>; (...rest: any[]): any };
}
  ? Client
  : Pool extends { connect(): Promise<infer Client> }
    ? Client
    : PostgresClient;

/** Options of the fence over a pool of `pg`. */
export interface PostgresFenceOptions extends SqlFenceOptions {
  /**
   * Sends the fence's own statements (of `transaction`, `advance`, `claim` and `statement`) as prepared statements, which
   * PostgreSQL parses once per connection and soon stops planning. Each text stays prepared as long as its connection lives, so the
   * texts given to `statement` should be a fixed set, with all that varies in parameters. Leave it off behind a pooler in
   * transaction mode that doesn't track prepared statements, such as PgBouncer before 1.21.
   *
   * @default false
   */
  readonly prepared?: boolean;
}

/** The fence of PostgreSQL, which can also check and write in one statement. */
export interface PostgresFence<Transaction> extends Fence<Transaction> {
  /**
   * Checks the token and runs one INSERT, UPDATE or DELETE in a single round trip, without a transaction of its own.
   * The statement must draw from the relation `fence` (one row per key; columns resource, token, holder), which fails
   * when the token is stale:
   *
   * ```ts
   * await fence.statement(token, 'UPDATE seat SET holder = $2 FROM fence WHERE seat.id = $1', ['12A', 'ana']);
   * ```
   *
   * What it writes must not depend on something read before, unless `claim` ran before that read.
   *
   * @returns the rows of its RETURNING clause
   * @throws StaleTokenError, FencedUsageError
   */
  statement(
    token: FenceToken | undefined,
    sql: string,
    parameters?: readonly unknown[],
    options?: FenceKeys,
  ): Promise<readonly SqlRow[]>;
}

/**
 * The fence over a pool of `pg`.
 *
 * `tx` is the pool's own client. One round trip is added to a transaction.
 *
 * @throws RedlockConfigError when an option is wrong
 */
export function postgresFence<Pool extends PostgresPool>(
  pool: Pool,
  options: PostgresFenceOptions = {},
): PostgresFence<PostgresClientOf<Pool>> {
  const { prepared = false } = options;
  if (typeof prepared !== 'boolean')
    throw new RedlockConfigError('prepared', prepared, 'give true or false');
  const executor = (client: PostgresClient) => clientExecutor(client, prepared);
  return new StatementFence<PostgresClient>(
    {
      dialect: 'postgresql',
      executor,
      autocommit: executor(pool),
      run: (work, isolationLevel) => runPostgresTransaction(pool, work, isolationLevel),
    },
    options,
  ) as unknown as PostgresFence<PostgresClientOf<Pool>>;
}

/** Shared with PGlite. */
export class StatementFence<Transaction>
  extends SqlFence<Transaction>
  implements PostgresFence<Transaction>
{
  async statement(
    token: FenceToken | undefined,
    sql: string,
    parameters: readonly unknown[] = [],
    options: FenceKeys = {},
  ): Promise<readonly SqlRow[]> {
    const claims = fenceClaims(token, options.keys);
    this.context.refuseNested(claims);
    const { autocommit } = this.adapter;
    if (!autocommit)
      throw new FencedUsageError('This fence has no connection outside transactions.');
    return this.reporter.reporting(token, claims, 'write', () =>
      this.retrying(claims, () =>
        advanceStatement(autocommit, this.table, claims, { sql, parameters }),
      ),
    );
  }
}
