import { sql } from 'drizzle-orm';
import { drizzle as drizzleMysql } from 'drizzle-orm/mysql2';
import { drizzle } from 'drizzle-orm/node-postgres';
import knexModule, { type Knex } from 'knex';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  drizzleFence,
  knexFence,
  kyselyFence,
  mysqlFence,
  postgresFence,
  typeormFence,
  type Fence,
  type SqlFenceOptions,
} from '../../../lib/fencing/index.ts';
import { inMariadb, inPostgres } from './hand-written-transactions.ts';
import { kyselyDatabase } from './orm-accounts.ts';

/** A driver or ORM with a fence over it. */
export interface OpenClient {
  readonly fence: Fence;
  /** What the user may pass to `advance` by mistake: each runs statements outside a transaction. */
  readonly outside: readonly unknown[];
  /** A transaction that the user opens. */
  run(work: (transaction: any) => Promise<unknown>): Promise<unknown>;
  close(): unknown;
}

export async function pgClient(url: string): Promise<OpenClient> {
  const pool = new pg.Pool({ connectionString: url });
  const client = await pool.connect();
  return {
    fence: postgresFence(pool),
    outside: [pool, client],
    run: (work) => inPostgres(pool, work),
    close: () => {
      client.release();
      return pool.end();
    },
  };
}

export async function mysql2Client(url: string): Promise<OpenClient> {
  const pool = createPool(url);
  const connection = await pool.getConnection();
  return {
    fence: mysqlFence(pool),
    outside: [pool, connection],
    run: (work) => inMariadb(pool, work),
    close: () => {
      connection.release();
      return pool.end();
    },
  };
}

export async function typeormClient(
  settings: DataSourceOptions,
  options?: SqlFenceOptions,
): Promise<OpenClient> {
  const source = await new DataSource(settings).initialize();
  const runner = source.createQueryRunner();
  return {
    fence: typeormFence(source, options),
    outside: [source.manager, runner.manager],
    run: (work) => source.transaction(work),
    close: async () => {
      await runner.release();
      await source.destroy();
    },
  };
}

export function knexClient(config: Knex.Config, options?: SqlFenceOptions): OpenClient {
  const knex = knexModule(config);
  return {
    fence: knexFence(knex, options),
    outside: [knex],
    run: (work) => knex.transaction(work),
    close: () => knex.destroy(),
  };
}

export function kyselyClient(
  url: string,
  dialect: 'postgresql' | 'mysql',
  options?: SqlFenceOptions,
): OpenClient {
  const database = kyselyDatabase<object>(url, dialect);
  return {
    fence: kyselyFence(database, { ...options, dialect }),
    outside: [database],
    run: (work) => database.transaction().execute(work),
    close: () => database.destroy(),
  };
}

export function drizzleClient(
  url: string,
  dialect: 'postgresql' | 'mysql',
  options?: SqlFenceOptions,
): OpenClient {
  if (dialect === 'mysql') {
    const pool = createPool(url);
    const database = drizzleMysql(pool);
    return {
      fence: drizzleFence(database, { ...options, sql, dialect }),
      outside: [database],
      run: (work) => database.transaction(work),
      close: () => pool.end(),
    };
  }
  const pool = new pg.Pool({ connectionString: url });
  const database = drizzle(pool);
  return {
    fence: drizzleFence(database, { ...options, sql }),
    outside: [database],
    run: (work) => database.transaction(work),
    close: () => pool.end(),
  };
}
