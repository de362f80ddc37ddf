import { drizzle } from 'drizzle-orm/node-postgres';
import { eq, sql } from 'drizzle-orm';
import { pgTable, text } from 'drizzle-orm/pg-core';
import knexModule from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { DataSource, EntitySchema } from 'typeorm';
import {
  drizzleFence,
  knexFence,
  kyselyFence,
  postgresFence,
  typeormFence,
  type PostgresFenceOptions,
} from '../../../lib/fencing/index.ts';
import type { FenceStore } from '../../../lib/testing/fencing.ts';
import { fencedAccounts, UPSERT } from './account-stores.ts';

interface Account {
  resource: string;
  text: string;
}

/** An account store over one ORM, and how to close it. */
export interface OpenStore {
  readonly store: FenceStore;
  close(): Promise<unknown>;
}

const firstText = (rows: readonly { text: string }[]): string | null => rows[0]?.text ?? null;

export async function openPg(url: string, options?: PostgresFenceOptions): Promise<OpenStore> {
  const pool = new pg.Pool({ connectionString: url, max: 30 });
  const store = fencedAccounts(postgresFence(pool, options), {
    read: async (resource) =>
      firstText(
        (await pool.query('SELECT text FROM account WHERE resource = $1', [resource])).rows,
      ),
    write: (client, resource, value) => client.query(UPSERT.postgresql, [resource, value]),
  });
  return { store, close: () => pool.end() };
}

export async function openTypeorm(url: string): Promise<OpenStore> {
  const accounts = new EntitySchema<Account>({
    name: 'account',
    columns: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
  });
  const source = await new DataSource({
    type: 'postgres',
    url,
    entities: [accounts],
    extra: { max: 30 },
  }).initialize();
  const store = fencedAccounts(typeormFence(source), {
    read: async (resource) =>
      (await source.getRepository(accounts).findOneBy({ resource }))?.text ?? null,
    write: (manager, resource, value) =>
      manager.getRepository(accounts).save({ resource, text: value }),
  });
  return { store, close: () => source.destroy() };
}

export async function openDrizzle(url: string): Promise<OpenStore> {
  const pool = new pg.Pool({ connectionString: url, max: 30 });
  const accounts = pgTable('account', { resource: text().primaryKey(), text: text().notNull() });
  const database = drizzle(pool);
  const store = fencedAccounts(drizzleFence(database, { sql }), {
    read: async (resource) =>
      firstText(await database.select().from(accounts).where(eq(accounts.resource, resource))),
    write: (transaction, resource, value) =>
      transaction
        .insert(accounts)
        .values({ resource, text: value })
        .onConflictDoUpdate({ target: accounts.resource, set: { text: value } }),
  });
  return { store, close: () => pool.end() };
}

export async function openKnex(url: string): Promise<OpenStore> {
  const knex = knexModule({ client: 'pg', connection: url, pool: { min: 0, max: 30 } });
  const store = fencedAccounts(knexFence(knex), {
    read: async (resource) => firstText(await knex<Account>('account').where({ resource })),
    write: (transaction, resource, value) =>
      transaction<Account>('account')
        .insert({ resource, text: value })
        .onConflict('resource')
        .merge(),
  });
  return { store, close: () => knex.destroy() };
}

export async function openKysely(url: string): Promise<OpenStore> {
  const database = new Kysely<{ account: Account }>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 30 }) }),
  });
  const store = fencedAccounts(kyselyFence(database), {
    read: async (resource) =>
      firstText(
        await database
          .selectFrom('account')
          .select('text')
          .where('resource', '=', resource)
          .execute(),
      ),
    write: (transaction, resource, value) =>
      transaction
        .insertInto('account')
        .values({ resource, text: value })
        .onConflict((conflict) => conflict.column('resource').doUpdateSet({ text: value }))
        .execute(),
  });
  return { store, close: () => database.destroy() };
}
