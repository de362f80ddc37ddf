import Database from 'better-sqlite3';
import { sql } from 'drizzle-orm';
import { drizzle as drizzleMysql } from 'drizzle-orm/mysql2';
import { drizzle } from 'drizzle-orm/node-postgres';
import knexModule, { type Knex } from 'knex';
import { sql as kyselySql } from 'kysely';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  drizzleFence,
  knexFence,
  kyselyFence,
  mysqlFence,
  postgresFence,
  sqliteFence,
  typeormFence,
  type Fence,
  type SqlFenceOptions,
} from '../../../lib/fencing/index.ts';
import { inMariadb, inPostgres } from './hand-written-transactions.ts';
import { nodeSqlite } from './node-sqlite.ts';
import { kyselyDatabase } from './orm-accounts.ts';
import { openPrismaClient, prismaPg } from './prisma-accounts.ts';

/** A driver or ORM with a fence over it. */
export interface OpenClient {
  readonly fence: Fence;
  /** What the user may pass to `advance` by mistake: each runs statements outside a transaction. */
  readonly outside: readonly unknown[];
  /** A transaction that the user opens. */
  run(work: (transaction: any) => Promise<unknown>): Promise<unknown>;
  /** Runs a statement in a transaction. */
  query(transaction: any, text: string): unknown;
  close(): unknown;
}

type Open = (url: string, options?: SqlFenceOptions) => OpenClient | Promise<OpenClient>;

async function pgClient(
  config: pg.PoolConfig,
  options?: SqlFenceOptions,
  view = (client: unknown) => client,
): Promise<OpenClient> {
  const pool = new pg.Pool(config);
  const client = await pool.connect();
  return {
    fence: postgresFence(pool, options),
    outside: [pool, client].map(view),
    run: (work) => inPostgres(pool, (transaction) => work(view(transaction))),
    query: (transaction, text) => transaction.query(text),
    close: () => {
      client.release();
      return pool.end();
    },
  };
}

const withoutStatus = (client: any): unknown =>
  client.getTransactionStatus
    ? new Proxy(client, {
        get: (target, name) =>
          name === 'getTransactionStatus' ? undefined : target[name].bind(target),
      })
    : client;

const mysql2Client: Open = async (url, options) => {
  const pool = createPool(url);
  const connection = await pool.getConnection();
  return {
    fence: mysqlFence(pool, options),
    outside: [pool, connection],
    run: (work) => inMariadb(pool, work),
    query: (transaction, text) => transaction.query(text),
    close: () => {
      connection.release();
      return pool.end();
    },
  };
};

async function typeormClient(
  settings: DataSourceOptions,
  options?: SqlFenceOptions,
): Promise<OpenClient> {
  const source = await new DataSource(settings).initialize();
  const runner = source.createQueryRunner();
  return {
    fence: typeormFence(source, options),
    outside: [source.manager, runner.manager],
    run: (work) => source.transaction(work),
    query: (transaction, text) => transaction.query(text),
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
    query: (transaction, text) => transaction.raw(text),
    close: () => knex.destroy(),
  };
}

const kyselyClient =
  (dialect: 'postgresql' | 'mysql'): Open =>
  (url, options) => {
    const database = kyselyDatabase<object>(url, dialect);
    return {
      fence: kyselyFence(database, { ...options, dialect }),
      outside: [database],
      run: (work) => database.transaction().execute(work),
      query: (transaction, text) => kyselySql.raw(text).execute(transaction),
      close: () => database.destroy(),
    };
  };

const drizzleClient =
  (dialect: 'postgresql' | 'mysql'): Open =>
  (url, options) => {
    const pool = dialect === 'mysql' ? createPool(url) : new pg.Pool({ connectionString: url });
    const database: any = dialect === 'mysql' ? drizzleMysql(pool as any) : drizzle(pool as any);
    return {
      fence: drizzleFence(database, { ...options, sql, dialect }) as Fence,
      outside: [database],
      run: (work) => database.transaction(work),
      query: (transaction, text) => transaction.execute(sql.raw(text)),
      close: () => pool.end(),
    };
  };

const prismaClient: Open = async (url, options) => {
  const { prisma, fence, close } = await openPrismaClient(prismaPg(url), 'postgresql', options);
  return {
    fence,
    outside: [prisma],
    run: (work) => prisma.$transaction(work),
    query: (transaction, text) => transaction.$executeRawUnsafe(text),
    close,
  };
};

const sqliteClient =
  (Driver: typeof Database | NonNullable<ReturnType<typeof nodeSqlite>>): Open =>
  (file, options) => {
    const database = new Driver(file);
    return {
      fence: sqliteFence(database, options),
      outside: [database],
      run: async (work) => {
        database.exec('BEGIN IMMEDIATE');
        await work(database);
        database.exec('COMMIT');
      },
      query: async (_transaction, text) => database.exec(text) ?? 'done',
      close: () => database.close(),
    };
  };

/** Each driver and ORM on each database that is reached by a URL, or a file. */
export const CLIENTS: Readonly<
  Record<'PostgreSQL' | 'MariaDB' | 'SQLite', Readonly<Record<string, Open>>>
> = {
  PostgreSQL: {
    pg: (connectionString, options) => pgClient({ connectionString }, options),
    'pg with pipeline': (connectionString, options) =>
      pgClient({ connectionString, pipeline: true } as pg.PoolConfig, options),
    'pg before getTransactionStatus': (connectionString, options) =>
      pgClient({ connectionString }, options, withoutStatus),
    TypeORM: (url, options) => typeormClient({ type: 'postgres', url }, options),
    Knex: (connection, options) => knexClient({ client: 'pg', connection }, options),
    Kysely: kyselyClient('postgresql'),
    Drizzle: drizzleClient('postgresql'),
    Prisma: prismaClient,
  },
  MariaDB: {
    mysql2: mysql2Client,
    TypeORM: (url, options) => typeormClient({ type: 'mariadb', url }, options),
    Knex: (connection, options) => knexClient({ client: 'mysql2', connection }, options),
    Kysely: kyselyClient('mysql'),
    Drizzle: drizzleClient('mysql'),
  },
  SQLite: {
    'better-sqlite3': sqliteClient(Database),
    'node:sqlite, where Node.js has it,': sqliteClient(nodeSqlite() ?? Database),
    TypeORM: (database, options) => typeormClient({ type: 'better-sqlite3', database }, options),
    Knex: (filename, options) =>
      knexClient(
        { client: 'better-sqlite3', connection: { filename }, useNullAsDefault: true },
        options,
      ),
  },
};
