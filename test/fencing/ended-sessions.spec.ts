import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { drizzle } from 'drizzle-orm/node-postgres';
import { sql } from 'drizzle-orm';
import { Kysely, PostgresDialect, sql as kyselySql } from 'kysely';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { drizzleFence, kyselyFence, postgresFence, type Fence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

/** As in the documentation. */
const listen = (pool: pg.Pool): void => {
  pool.on('connect', (client) => client.on('error', () => undefined));
};

const database = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));

interface Client {
  readonly fence: Fence;
  /** Runs a statement of the work. */
  readonly select: (tx: any) => Promise<unknown>;
}

const CLIENTS: Readonly<Record<string, (pool: pg.Pool) => Client>> = {
  pg: (pool) => ({ fence: postgresFence(pool), select: (tx) => tx.query('SELECT 1') }),
  Kysely: (pool) => ({
    fence: kyselyFence(new Kysely({ dialect: new PostgresDialect({ pool }) })),
    select: (tx) => kyselySql`SELECT 1`.execute(tx),
  }),
  Drizzle: (pool) => ({
    fence: drizzleFence(drizzle(pool), { sql }),
    select: (tx) => tx.execute(sql`SELECT 1`),
  }),
};

it.each(Object.keys(CLIENTS))(
  'a session that ends while the work does something else ends the work, not the process: %s',
  async (name) => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 });
    pool.on('error', () => undefined);
    if (name !== 'pg') listen(pool);
    try {
      const { fence, select } = CLIENTS[name]!(pool);
      const token = new FencingToken(1, [`idle:${name}`], 'h');
      const idle = fence.transaction(
        token,
        async (tx) => {
          await sleep(400);
          await select(tx);
        },
        { idleInTransactionTimeout: '100ms' },
      );
      await expect(idle).rejects.toBeInstanceOf(Error);
      await fence.transaction(token, select);
    } finally {
      await pool.end();
    }
  },
);
