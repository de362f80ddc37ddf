import { eq, sql } from 'drizzle-orm';
import { drizzle as drizzleMysql } from 'drizzle-orm/mysql2';
import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, text as textColumn } from 'drizzle-orm/pg-core';
import knexModule, { type Knex } from 'knex';
import { CamelCasePlugin, Kysely, MysqlDialect, PostgresDialect } from 'kysely';
import { createPool as createCallbackPool } from 'mysql2';
import { createPool, type PoolConnection } from 'mysql2/promise';
import pg from 'pg';
import { DataSource, EntitySchema, type DataSourceOptions } from 'typeorm';
import {
  drizzleFence,
  knexFence,
  kyselyFence,
  mysqlFence,
  postgresFence,
  typeormFence,
  type IsolationLevel,
  type PostgresFenceOptions,
} from '../../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../../lib/fencing/sql/sql-error.ts';
import { retried } from '../stress/patterns.ts';
import {
  AGED,
  fencedAccounts,
  firstText,
  SELECT,
  UPSERT,
  type Account,
  type Accounts,
  type OpenStore,
} from './account-stores.ts';
import { FORGET } from './forget.ts';

/** Enough for all sessions of the kit at once. */
export const CONNECTIONS = 30;

const pgPool = (url: string): pg.Pool => new pg.Pool({ connectionString: url, max: CONNECTIONS });
const mysqlSettings = (url: string) => ({ uri: url, connectionLimit: CONNECTIONS });

export function openPg(
  url: string,
  options?: PostgresFenceOptions,
  level?: IsolationLevel,
): OpenStore {
  const pool = pgPool(url);
  const accounts: Accounts<pg.PoolClient> = {
    read: async (resource) => firstText((await pool.query(SELECT.postgresql, [resource])).rows),
    write: (client, resource, text) => client.query(UPSERT.postgresql, [resource, text]),
    forget: (before) => pool.query(FORGET.postgresql, [before]),
  };
  const store = fencedAccounts(postgresFence(pool, { ...AGED, ...options }), accounts, level);
  return { store, close: () => pool.end() };
}

export function openMysql2(url: string, level?: IsolationLevel): OpenStore {
  const pool = createPool(mysqlSettings(url));
  const accounts: Accounts<PoolConnection> = {
    read: async (resource) => firstText((await pool.query(SELECT.questionMark, [resource]))[0]),
    write: (connection, resource, text) => connection.query(UPSERT.mysql, [resource, text]),
    forget: (before) =>
      retried(
        async () => void (await pool.query(FORGET.questionMark, [before])),
        isRetryableSqlError,
      ),
  };
  const store = fencedAccounts(mysqlFence(pool, AGED), accounts, level);
  return { store, close: () => pool.end() };
}

export async function openTypeorm(options: DataSourceOptions): Promise<OpenStore> {
  const accounts = new EntitySchema<Account>({
    name: 'account',
    columns: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
  });
  const source = new DataSource({ ...options, entities: [accounts] } as DataSourceOptions);
  await source.initialize();
  const store = fencedAccounts(typeormFence(source, AGED), {
    read: async (resource) =>
      (await source.getRepository(accounts).findOneBy({ resource }))?.text ?? null,
    write: (manager, resource, text) => manager.getRepository(accounts).save({ resource, text }),
  });
  return { store, close: () => source.destroy() };
}

export function openKnex(config: Knex.Config): OpenStore {
  const knex = knexModule({ pool: { min: 0, max: CONNECTIONS }, ...config });
  const store = fencedAccounts(knexFence(knex, AGED), {
    read: async (resource) => firstText(await knex<Account>('account').where({ resource })),
    write: (transaction, resource, text) =>
      transaction<Account>('account').insert({ resource, text }).onConflict('resource').merge(),
  });
  return { store, close: () => knex.destroy() };
}

export function openDrizzle(url: string): OpenStore {
  const pool = pgPool(url);
  const accounts = pgTable('account', {
    resource: textColumn().primaryKey(),
    text: textColumn().notNull(),
  });
  const database = drizzle(pool);
  const store = fencedAccounts(drizzleFence(database, { ...AGED, sql }), {
    read: async (resource) =>
      firstText(await database.select().from(accounts).where(eq(accounts.resource, resource))),
    write: (transaction, resource, text) =>
      transaction
        .insert(accounts)
        .values({ resource, text })
        .onConflictDoUpdate({ target: accounts.resource, set: { text } }),
  });
  return { store, close: () => pool.end() };
}

export function openDrizzleMysql(url: string): OpenStore {
  const pool = createPool(mysqlSettings(url));
  const store = fencedAccounts(
    drizzleFence(drizzleMysql(pool), { ...AGED, sql, dialect: 'mysql' }),
    {
      read: async (resource) => firstText((await pool.query(SELECT.questionMark, [resource]))[0]),
      write: (transaction, resource, text) =>
        transaction.execute(
          sql`INSERT INTO account (resource, text) VALUES (${resource}, ${text}) ON DUPLICATE KEY UPDATE text = VALUES(text)`,
        ),
    },
  );
  return { store, close: () => pool.end() };
}

export function kyselyDatabase<Tables>(
  url: string,
  dialect: 'postgresql' | 'mysql',
): Kysely<Tables> {
  return new Kysely<Tables>({
    plugins: [new CamelCasePlugin()],
    dialect:
      dialect === 'mysql'
        ? new MysqlDialect({ pool: createCallbackPool(mysqlSettings(url)) })
        : new PostgresDialect({ pool: pgPool(url) }),
  });
}

export function openKysely(url: string, dialect: 'postgresql' | 'mysql'): OpenStore {
  const isMysql = dialect === 'mysql';
  const database = kyselyDatabase<{ account: Account }>(url, dialect);
  const store = fencedAccounts(kyselyFence(database, { ...AGED, dialect }), {
    read: async (resource) =>
      firstText(
        await database
          .selectFrom('account')
          .select('text')
          .where('resource', '=', resource)
          .execute(),
      ),
    write: (transaction, resource, text) => {
      const insert = transaction.insertInto('account').values({ resource, text });
      return isMysql
        ? insert.onDuplicateKeyUpdate({ text }).execute()
        : insert.onConflict((on) => on.column('resource').doUpdateSet({ text })).execute();
    },
  });
  return { store, close: () => database.destroy() };
}
