import type { Fence } from '../fencing/fence.ts';
import { RedlockConfigError } from '../core/errors.ts';
import { hasMethods, refuseClient } from '../fencing/fence-arguments.ts';
import { pgliteFence, type Pglite } from '../fencing/drivers/pglite-fence.ts';
import { postgresFence } from '../fencing/drivers/postgres-fence.ts';
import {
  isInPostgresTransaction,
  withClient,
  type PooledClient,
  type PostgresClient,
  type PostgresPool,
} from '../fencing/drivers/postgres-pool.ts';
import { send, type SqlRow } from '../fencing/sql/sql-executor.ts';
import { SqlFence } from '../fencing/sql/sql-fence.ts';

/** The database as the node needs it: single statements, one at a time, outside of any transaction. */
export interface LockDatabase {
  readonly fence: SqlFence<any>;
  readonly fenceTable: string;
  /** The schema of the fence's table with a dot, in which the tables of the locks are, too; empty where it was named without one. */
  readonly schema: string;
  /** A PGlite, which tells its process by itself. */
  readonly pglite: Pglite<any> | undefined;
  /**
   * @param giveUp rejects when the answer has been due for too long from its call on: a connection of a pool is thrown away then, because
   *   what was sent on it may still be executed. The wait in the line of a pool is not counted where it is known: to give up would be
   *   to lose the place in it.
   */
  query(
    sql: string,
    parameters: readonly unknown[],
    giveUp: () => Promise<never>,
  ): Promise<readonly SqlRow[]>;
}

/** @throws RedlockConfigError when it is none of these */
export function lockDatabase(database: PostgresPool | Pglite<any> | Fence): LockDatabase {
  const fence = fenceOver(database);
  const { adapter, table } = fence.parts;
  const { database: inner = {}, autocommit } = adapter;
  const [schema] = table.name.includes('.') ? table.name.split('.') : [];
  const run = async (sql: string, parameters: readonly unknown[]) => {
    if (autocommit !== undefined) return send(autocommit, sql, parameters);
    const once = async (transaction: unknown) =>
      send(adapter.executor(transaction), sql, parameters);
    return adapter.run(once, 'read committed', {});
  };
  return {
    fence,
    fenceTable: table.name,
    schema: schema === undefined ? '' : `${schema}.`,
    pglite: isPglite(inner) ? inner : undefined,
    query: isPool(inner)
      ? (sql, parameters, giveUp) => queryPool(inner, sql, parameters, giveUp)
      : (sql, parameters, giveUp) => Promise.race([run(sql, parameters), giveUp()]),
  };
}

function fenceOver(database: PostgresPool | Pglite<any> | Fence): SqlFence<any> {
  const needs =
    'a Pool of pg, a PGlite, or a fence over PostgreSQL such as prismaFence(prisma) or typeormFence(dataSource)';
  if (database instanceof SqlFence) {
    const { dialect } = database.parts.table;
    if (dialect === 'postgresql') return database;
    throw new RedlockConfigError(
      'postgresNode',
      undefined,
      `it needs ${needs}`,
      `made over ${dialect}`,
    );
  }
  if (isPglite(database)) return pgliteFence(database) as SqlFence<any>;
  if (isPool(database)) return postgresFence(database) as unknown as SqlFence<any>;
  return refuseClient('postgresNode', database, needs);
}

const isPool = (value: object): value is PostgresPool => hasMethods(value, ['connect', 'query']);
const isPglite = (value: object): value is Pglite<any> =>
  hasMethods(value, ['transaction', 'query', 'listen']);

/** One statement on a client of the pool, which is thrown away when its answer does not come. */
function queryPool(
  pool: PostgresPool,
  text: string,
  values: readonly unknown[],
  giveUp: () => Promise<never>,
): Promise<readonly SqlRow[]> {
  let isGivenUp = false;
  let silence: Promise<never> | undefined;
  const untilSilence = () =>
    (silence ??= giveUp().catch((error: unknown) => {
      isGivenUp = true;
      throw error;
    }));
  // The network may forget a connection while it is made, and nobody would end it: the line would stand still for good.
  const patient = async (connecting: Promise<PooledClient>): Promise<PooledClient> => {
    try {
      return await Promise.race([connecting, untilSilence()]);
    } catch (error) {
      connecting.then(
        (client) => client.release(),
        () => undefined,
      );
      throw error;
    }
  };
  const run = async (client: PostgresClient): Promise<readonly SqlRow[]> => {
    // In a transaction that an earlier user left open, nothing would be committed. Only newer versions of pg know of it.
    const isOldClient = client.getTransactionStatus === undefined;
    const ask = async () => {
      if (isOldClient && (await isInPostgresTransaction(client))) await client.query('ROLLBACK');
      return client.query({ text, values: [...values] });
    };
    return (await Promise.race([ask(), untilSilence()])).rows as readonly SqlRow[];
  };
  return withClient(pool, run, () => isGivenUp, patient);
}
