import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/mysql2';
import knexModule from 'knex';
import { Kysely, MysqlDialect } from 'kysely';
import { createPool as createCallbackPool } from 'mysql2';
import { createPool, type RowDataPacket } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import {
  drizzleFence,
  knexFence,
  kyselyFence,
  mysqlFence,
  typeormFence,
} from '../../../lib/fencing/index.ts';
import { fencedAccounts, UPSERT } from './account-stores.ts';
import type { OpenStore } from './postgres-accounts.ts';

const SELECT = 'SELECT text FROM account WHERE resource = ?';

const firstText = (rows: unknown): string | null => (rows as { text: string }[])[0]?.text ?? null;

export async function openMysql2(url: string): Promise<OpenStore> {
  const pool = createPool({ uri: url, connectionLimit: 30 });
  const store = fencedAccounts(mysqlFence(pool), {
    read: async (resource) => firstText((await pool.query<RowDataPacket[]>(SELECT, [resource]))[0]),
    write: (connection, resource, text) => connection.query(UPSERT.mysql, [resource, text]),
  });
  return { store, close: () => pool.end() };
}

export async function openTypeormMysql(url: string): Promise<OpenStore> {
  const source = await new DataSource({ type: 'mariadb', url, poolSize: 30 }).initialize();
  const store = fencedAccounts(typeormFence(source), {
    read: async (resource) => firstText(await source.query(SELECT, [resource])),
    write: (manager, resource, text) => manager.query(UPSERT.mysql, [resource, text]),
  });
  return { store, close: () => source.destroy() };
}

export async function openKnexMysql(url: string): Promise<OpenStore> {
  const knex = knexModule({ client: 'mysql2', connection: url, pool: { min: 0, max: 30 } });
  const store = fencedAccounts(knexFence(knex), {
    read: async (resource) => firstText(await knex('account').select('text').where({ resource })),
    write: (transaction, resource, text) => transaction.raw(UPSERT.mysql, [resource, text]),
  });
  return { store, close: () => knex.destroy() };
}

export async function openDrizzleMysql(url: string): Promise<OpenStore> {
  const pool = createPool({ uri: url, connectionLimit: 30 });
  const database = drizzle(pool);
  const store = fencedAccounts(drizzleFence(database, { sql, dialect: 'mysql' }), {
    read: async (resource) => firstText((await pool.query<RowDataPacket[]>(SELECT, [resource]))[0]),
    write: (transaction, resource, text) =>
      transaction.execute(
        sql`INSERT INTO account (resource, text) VALUES (${resource}, ${text}) ON DUPLICATE KEY UPDATE text = VALUES(text)`,
      ),
  });
  return { store, close: () => pool.end() };
}

export async function openKyselyMysql(url: string): Promise<OpenStore> {
  const database = new Kysely<{ account: { resource: string; text: string } }>({
    dialect: new MysqlDialect({ pool: createCallbackPool({ uri: url, connectionLimit: 30 }) }),
  });
  const store = fencedAccounts(kyselyFence(database, { dialect: 'mysql' }), {
    read: async (resource) =>
      firstText(
        await database
          .selectFrom('account')
          .select('text')
          .where('resource', '=', resource)
          .execute(),
      ),
    write: (transaction, resource, text) =>
      transaction
        .insertInto('account')
        .values({ resource, text })
        .onDuplicateKeyUpdate({ text })
        .execute(),
  });
  return { store, close: () => database.destroy() };
}
