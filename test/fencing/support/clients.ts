import type { PGlite } from '@electric-sql/pglite';
import { sql } from 'drizzle-orm';
import { drizzle as drizzleMysql } from 'drizzle-orm/mysql2';
import { drizzle } from 'drizzle-orm/node-postgres';
import knexModule, { type Knex } from 'knex';
import { CamelCasePlugin, Kysely, MysqlDialect, PostgresDialect, sql as kyselySql } from 'kysely';
import { createPool as createCallbackPool } from 'mysql2';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  drizzleFence,
  knexFence,
  kyselyFence,
  mysqlFence,
  pgliteFence,
  postgresFence,
  sqliteFence,
  typeormFence,
  type Fence,
  type SqlFenceOptions,
} from '../../../lib/fencing/index.ts';
import { startPglite } from '../../support/databases/start-pglite.ts';
import { ACCOUNT_DDL } from './accounts.ts';
import { inMariadb, inPostgres } from './hand-written-transactions.ts';
import { openPrismaClient, prismaPg } from './prisma-client.ts';
import { SQLITE_DRIVERS, type SqliteDriver } from './sqlite-drivers.ts';

/** A driver or ORM with a fence over it. */
export interface FencedClient {
  readonly fence: Fence;
  /** Arguments that the user may pass to `advance` by mistake: each runs statements outside a transaction. */
  readonly outside: readonly unknown[];
  /** A transaction that the user opens. */
  readonly run: (work: (transaction: any) => Promise<unknown>) => Promise<unknown>;
  /** Runs a statement in a transaction. */
  readonly execute: (transaction: any, text: string) => unknown;
  readonly close: () => unknown;
}

export type OpenClient = (
  url: string,
  options?: SqlFenceOptions,
) => FencedClient | Promise<FencedClient>;

/** Enough for all sessions of the kit at once. */
const CONNECTIONS = 30;
const mysqlSettings = (uri: string) => ({ uri, connectionLimit: CONNECTIONS });

const pgClient =
  (settings: object = {}, view = (client: unknown) => client): OpenClient =>
  async (connectionString, options) => {
    const pool = new pg.Pool({ connectionString, max: CONNECTIONS, ...settings });
    const client = await pool.connect();
    return {
      fence: postgresFence(pool, options),
      outside: [pool, client].map(view),
      run: (work) => inPostgres(pool, (transaction) => work(view(transaction))),
      execute: (transaction, text) => transaction.query(text),
      close: () => {
        client.release();
        return pool.end();
      },
    };
  };

const withoutStatus = (client: any): unknown =>
  client.getTransactionStatus
    ? new Proxy(client, {
        get: (target, name) =>
          name === 'getTransactionStatus' ? undefined : target[name].bind(target),
      })
    : client;

const mysql2Client: OpenClient = async (url, options) => {
  const pool = createPool(mysqlSettings(url));
  const connection = await pool.getConnection();
  return {
    fence: mysqlFence(pool, options),
    outside: [pool, connection],
    run: (work) => inMariadb(pool, work),
    execute: (transaction, text) => transaction.query(text),
    close: () => {
      connection.release();
      return pool.end();
    },
  };
};

const typeormClient =
  (settings: (url: string) => DataSourceOptions): OpenClient =>
  async (url, options) => {
    const source = await new DataSource(settings(url)).initialize();
    const runner = source.createQueryRunner();
    return {
      fence: typeormFence(source, options),
      outside: [source.manager, runner.manager],
      run: (work) => source.transaction(work),
      execute: (transaction, text) => transaction.query(text),
      close: async () => {
        await runner.release();
        await source.destroy();
      },
    };
  };

const knexClient =
  (settings: (url: string) => Knex.Config): OpenClient =>
  (url, options) =>
    overKnex(knexModule({ pool: { min: 0, max: CONNECTIONS }, ...settings(url) }), options);

const overKnex = (knex: Knex, options?: SqlFenceOptions): FencedClient => ({
  fence: knexFence(knex, options),
  outside: [knex],
  run: (work) => knex.transaction(work),
  execute: (transaction, text) => transaction.raw(text),
  close: () => knex.destroy(),
});

const kyselyClient =
  (dialect: 'postgresql' | 'mysql'): OpenClient =>
  (url, options) => {
    const database = new Kysely<object>({
      // The plugin renames columns, of the fence too.
      plugins: [new CamelCasePlugin()],
      dialect:
        dialect === 'mysql'
          ? new MysqlDialect({ pool: createCallbackPool(mysqlSettings(url)) })
          : new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: CONNECTIONS }) }),
    });
    return {
      fence: kyselyFence(database, { ...options, dialect }),
      outside: [database],
      run: (work) => database.transaction().execute(work),
      execute: (transaction, text) => kyselySql.raw(text).execute(transaction),
      close: () => database.destroy(),
    };
  };

const drizzleClient =
  (dialect: 'postgresql' | 'mysql'): OpenClient =>
  (url, options) => {
    const pool =
      dialect === 'mysql'
        ? createPool(mysqlSettings(url))
        : new pg.Pool({ connectionString: url, max: CONNECTIONS });
    const database: any = dialect === 'mysql' ? drizzleMysql(pool as any) : drizzle(pool as any);
    return {
      fence: drizzleFence(database, { ...options, sql, dialect }) as Fence,
      outside: [database],
      run: (work) => database.transaction(work),
      execute: (transaction, text) => transaction.execute(sql.raw(text)),
      close: () => pool.end(),
    };
  };

const prismaClient: OpenClient = (url, options) =>
  openPrismaClient(prismaPg(url), 'postgresql', options);

export const sqliteClient =
  (Driver: SqliteDriver): OpenClient =>
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
      execute: async (_transaction, text) => database.exec(text) ?? 'done',
      close: () => database.close(),
    };
  };

/** ORMs over a driver with the interface of better-sqlite3. */
export const sqliteOrms = (driver: SqliteDriver): Readonly<Record<string, OpenClient>> => ({
  TypeORM: typeormClient((database) => ({ type: 'better-sqlite3', database, driver })),
  Knex: (file, options) => {
    const knex = knexModule({
      client: 'better-sqlite3',
      connection: { filename: file },
      useNullAsDefault: true,
      pool: { min: 1, max: 1 },
    });
    // Knex has no option for this.
    knex.client.driver = driver;
    return overKnex(knex, options);
  },
});

/** The only one, with the tables: its start takes seconds. */
export const pglite = (() => {
  let made: Promise<PGlite> | undefined;
  const start = async () => {
    const lite = await startPglite();
    await lite.exec(`${ACCOUNT_DDL.postgresql}; ${pgliteFence(lite).ddl()}`);
    return lite;
  };
  return {
    start: () => (made ??= start()),
    close: async () => (await made)?.close(),
  };
})();

const pgliteClient: OpenClient = async (_url, options) => {
  const lite = await pglite.start();
  return {
    fence: pgliteFence(lite, options),
    outside: [lite],
    run: (work) => lite.transaction(work),
    execute: (transaction, text) => transaction.exec(text),
    close: () => undefined,
  };
};

export type DatabaseName = 'PostgreSQL' | 'PGlite' | 'MariaDB' | 'SQLite';

/** Drivers and ORMs on each database that is reached by a URL, or a file. */
export const CLIENTS: Readonly<Record<DatabaseName, Readonly<Record<string, OpenClient>>>> = {
  PostgreSQL: {
    pg: pgClient(),
    'pg with prepared statements': (url, options) =>
      pgClient()(url, { ...options, prepared: true } as SqlFenceOptions),
    'pg with pipeline': pgClient({ pipeline: true }),
    'pg before getTransactionStatus': pgClient({}, withoutStatus),
    TypeORM: typeormClient((url) => ({ type: 'postgres', url, poolSize: CONNECTIONS })),
    Knex: knexClient((connection) => ({ client: 'pg', connection })),
    Kysely: kyselyClient('postgresql'),
    Drizzle: drizzleClient('postgresql'),
    Prisma: prismaClient,
  },
  PGlite: { PGlite: pgliteClient },
  MariaDB: {
    mysql2: mysql2Client,
    TypeORM: typeormClient((url) => ({ type: 'mariadb', url, poolSize: CONNECTIONS })),
    Knex: knexClient((connection) => ({ client: 'mysql2', connection })),
    Kysely: kyselyClient('mysql'),
    Drizzle: drizzleClient('mysql'),
  },
  SQLite: {
    ...Object.fromEntries(
      Object.entries(SQLITE_DRIVERS).map(([name, Driver]) => [name, sqliteClient(Driver)]),
    ),
    ...sqliteOrms(SQLITE_DRIVERS.libsql!),
  },
};
