import pg from 'pg';
import { postgresFence } from '../../../lib/fencing/index.ts';
import type { DatabaseServer } from '../../support/databases/database-server.ts';
import { createPostgresDatabase, startPostgres } from '../../support/databases/postgres-server.ts';

/** A database of its own on a real PostgreSQL, with the fence table and a table of seats. */
export interface FencedDatabase {
  readonly url: string;
  readonly pool: pg.Pool;
  /** What the fence holds now of `key`. */
  fenceRow(key: string): Promise<{ token: string; holder: string } | undefined>;
  stop(): Promise<void>;
}

export async function startFencedDatabase(name: string): Promise<FencedDatabase> {
  const server: DatabaseServer = await startPostgres();
  const url = await createPostgresDatabase(server, `${name}_${Date.now()}_${process.pid}`);
  // A session that waits for another without end fails its test instead.
  const pool = new pg.Pool({ connectionString: url, lock_timeout: 10_000 });
  // The server ends before idle connections do.
  pool.on('error', () => undefined);
  await pool.query(postgresFence(pool).ddl());
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, owner text)');
  return {
    url,
    pool,
    async fenceRow(key) {
      const sql =
        'SELECT CAST(token AS text) AS token, holder FROM redlock_fence WHERE resource = $1';
      return (await pool.query<{ token: string; holder: string }>(sql, [key])).rows[0];
    },
    async stop() {
      await pool.end();
      await server.stop();
    },
  };
}
