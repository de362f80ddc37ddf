import type { TokenSource } from '../../core/token-source.ts';
import { fenceError } from '../sql/advance-fence.ts';
import type { SqlFenceOptions } from '../fence.ts';
import { fenceClaims } from '../fence-claim.ts';
import { fenceTable } from '../sql/dialect.ts';
import { runPostgresTransaction, type PostgresPool } from './postgres-pool.ts';
import { postgresFenceSql } from '../sql/postgres-sql.ts';
import { isRetryableSqlError } from '../sql/sql-error.ts';

/** Issues tokens from the fence's own rows. */
export interface PostgresTokenSource extends TokenSource {
  /** The CREATE TABLE of the rows; the same table as the fence's. */
  ddl(): string;
}

const ATTEMPTS = 10;

/**
 * Fencing tokens from counter rows in PostgreSQL, for `RedlockModule.forRoot({ tokens: postgresTokenSource(pool) })`: small
 * numbers (1, 2, 3 …), issued while the lock is held. With the fence in the same table, issuing is claiming at once.
 *
 * A row and not a SEQUENCE: the number is durable before it is handed out. After a crash a sequence may hand out again numbers
 * that `nextval` had returned, also committed ones, because only every 32nd is written to the log.
 */
export function postgresTokenSource(
  pool: PostgresPool,
  options: Pick<SqlFenceOptions, 'table'> = {},
): PostgresTokenSource {
  const table = fenceTable(options.table);
  return {
    ddl: () => postgresFenceSql.ddl(table),
    async issue({ keys, holder, signal }) {
      const claims = fenceClaims({ value: 1, keys, holder });
      const names = claims.map((claim) => claim.key);
      for (let attempt = 1; ; attempt += 1) {
        signal.throwIfAborted();
        try {
          const [first] = names;
          return names.length === 1 && first !== undefined
            ? await issueOne(pool, table, first, holder)
            : await issueSet(pool, table, names, holder);
        } catch (error) {
          if (attempt < ATTEMPTS && isRetryableSqlError(error)) continue;
          throw fenceError(error, 'postgresql', table, claims);
        }
      }
    },
  };
}

/** One key: one statement. */
async function issueOne(
  pool: PostgresPool,
  table: string,
  key: string,
  holder: string,
): Promise<number> {
  const { rows } = await pool.query(
    `INSERT INTO ${table} AS f (resource, token, holder) VALUES ($1, 1, $2)
ON CONFLICT (resource) DO UPDATE SET token = f.token + 1, holder = EXCLUDED.holder
RETURNING CAST(token AS text) AS token`,
    [key, holder],
  );
  return Number(rows[0].token);
}

/** Locks all rows in the order of their keys, then raises them to one number above all of them. */
function issueSet(
  pool: PostgresPool,
  table: string,
  keys: readonly string[],
  holder: string,
): Promise<number> {
  const values = keys
    .map((_key, index) => `(CAST($${index + 2} AS text), 1, CAST($1 AS text))`)
    .join(', ');
  const names = keys.map((_key, index) => `$${index + 2}`).join(', ');
  return runPostgresTransaction(pool, async (client) => {
    const { rows } = await client.query(
      `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${values}
ON CONFLICT (resource) DO UPDATE SET token = f.token + 1, holder = EXCLUDED.holder
RETURNING CAST(token AS text) AS token`,
      [holder, ...keys],
    );
    const token = Math.max(...rows.map((row) => Number(row.token)));
    await client.query(
      `UPDATE ${table} SET token = CAST($1 AS bigint) WHERE resource IN (${names})`,
      [String(token), ...keys],
    );
    return token;
  });
}
