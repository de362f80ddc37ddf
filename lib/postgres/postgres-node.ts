import { callback, checkOptions } from '../core/options/option-names.ts';
import { systemEnvironment } from '../core/system-environment.ts';
import type { Pglite } from '../fencing/drivers/pglite-fence.ts';
import type { PostgresPool } from '../fencing/drivers/postgres-pool.ts';
import { text } from '../fencing/fence-arguments.ts';
import type { Fence } from '../fencing/fence.ts';
import { lockDatabase } from './lock-database.ts';
import { PostgresLockNode, type PostgresNode } from './postgres-lock-node.ts';
import type { ListeningClient } from './turns.ts';

/** The options of {@link postgresNode}. */
export interface PostgresNodeOptions {
  /**
   * Makes a client with a connection of its own, such as `() => new Client({ connectionString })` of `pg`. With it a process that waits
   * hears within milliseconds that it is its turn; without, it asks every 100 ms. The connection must lead to the database itself:
   * a pooler in transaction mode delivers no notifications. A PGlite needs none.
   *
   * @default none
   */
  readonly listen?: () => ListeningClient;
  /** The name in messages and in what processes compare of their nodes, so that all of them must say the same. @default 'postgresql' */
  readonly name?: string;
}

const OPTIONS = {
  listen: callback,
  name: text(/^[\w.:-]{1,100}$/, "use letters, digits, '_', '.', ':' and '-'"),
};

/**
 * A PostgreSQL database (13 or newer) that gives the locks: the only node, or one among Redis servers.
 *
 * As the only node it claims: a grant and the fence's row are one commit, so a late write of a former holder is refused from the moment
 * at which the next one has the lock. The module uses the fence of the same database where it is given none.
 *
 * It needs tables and functions, which `ddl()` returns for a migration. It takes one connection of the pool at a time, and none while
 * work under a lock runs. It also works through a pooler in transaction mode.
 *
 * @param database a `Pool` of `pg`, a `PGlite`, or a fence over PostgreSQL: that of an ORM brings the ORM's connections, and the schema
 *   of its table is that of the tables of the locks
 * @example
 * ```ts
 * import { RedlockModule } from 'nestjs-fenced-lock';
 * import { postgresNode } from 'nestjs-fenced-lock/postgres';
 * import { Pool } from 'pg';
 *
 * const database = new Pool({ connectionString: process.env.DATABASE_URL });
 * database.on('error', () => undefined); // an idle connection that breaks is replaced, and must not end the process
 * RedlockModule.forRoot({ nodes: [postgresNode(database)] });
 * ```
 * @throws RedlockConfigError when it is given another object, or an option that there is not
 */
export function postgresNode(
  database: PostgresPool | Pglite<any> | Fence,
  options: PostgresNodeOptions = {},
): PostgresNode {
  const { name = 'postgresql', listen } = checkOptions('postgresNode', OPTIONS, options);
  return new PostgresLockNode(lockDatabase(database), { name, listen }, systemEnvironment);
}
