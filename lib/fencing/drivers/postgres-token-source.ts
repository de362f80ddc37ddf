import type { TokenSource } from '../../core/fencing-token.ts';
import { checkOptions } from '../../core/options/option-names.ts';
import { fenceError } from '../sql/advance-fence.ts';
import type { SqlFenceOptions } from '../fence.ts';
import { DEFAULT_TABLE, SQL_FENCE_OPTIONS } from '../fence-arguments.ts';
import { fenceClaims } from '../fence-claim.ts';
import { claimRows } from '../sql/dialect.ts';
import {
  checkPostgresPool,
  runPostgresTransaction,
  type PostgresClient,
  type PostgresPool,
} from './postgres-pool.ts';
import { postgresFenceSql } from '../sql/postgres-sql.ts';

/** Issues tokens from the fence's own rows. */
export interface PostgresTokenSource extends TokenSource {
  /** The CREATE TABLE of the rows; the same table as the fence's. */
  ddl(): string;
}

/**
 * Fencing tokens from counter rows in PostgreSQL, for `RedlockModule.forRoot({ tokens: postgresTokenSource(pool) })`: small
 * numbers (1, 2, 3 …), issued while the lock is held. With the fence in the same table, issuing is claiming at once.
 *
 * A row and not a SEQUENCE: the number is durable before it is handed out. After a crash a sequence may hand out again numbers
 * that `nextval` had returned, also committed ones, because only every 32nd is written to the log.
 *
 * @example
 * ```ts
 * import { RedlockModule } from 'nestjs-fenced-lock';
 * import { postgresFence, postgresTokenSource } from 'nestjs-fenced-lock/fencing';
 *
 * RedlockModule.forRoot({
 *   nodes: ['redis://localhost:6379'],
 *   tokens: postgresTokenSource(pool),
 *   fence: postgresFence(pool),
 * });
 * ```
 * @throws RedlockConfigError when it is given another object than a pool, or an option that there is not
 */
export function postgresTokenSource(
  pool: PostgresPool,
  options: Pick<SqlFenceOptions, 'table'> = {},
): PostgresTokenSource {
  checkPostgresPool('postgresTokenSource', pool);
  const known = { table: SQL_FENCE_OPTIONS.table };
  const { table = DEFAULT_TABLE } = checkOptions('postgresTokenSource', known, options);
  return {
    ddl: () => postgresFenceSql.ddl(table),
    async issue({ keys, holder, signal }) {
      const claims = fenceClaims({ value: 1, keys, holder });
      const raise = async (client: PostgresClient): Promise<number> => {
        // The lock may have been lost while a connection was awaited.
        signal.throwIfAborted();
        const first = claimRows(postgresFenceSql, claims);
        // Locks the rows in the order of their keys, and raises each by one.
        const { rows } = await client.query(
          `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${first.rows}
ON CONFLICT (resource) DO UPDATE SET token = f.token + 1, holder = EXCLUDED.holder RETURNING token`,
          [...first.parameters],
        );
        const token = Math.max(...rows.map((row) => Number(row.token)));
        if (claims.length > 1)
          await client.query(
            `UPDATE ${table} SET token = CAST($1 AS bigint) WHERE resource = ANY(CAST($2 AS text[]))`,
            [String(token), claims.map(({ key }) => key)],
          );
        return token;
      };
      try {
        // Issuers of one key would abort each other at a stricter level, which may be the database's own.
        return await runPostgresTransaction(pool, raise, 'read committed');
      } catch (error) {
        throw fenceError(error, { dialect: 'postgresql', name: table }, claims);
      }
    },
  };
}
