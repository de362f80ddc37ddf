import { PGlite } from '@electric-sql/pglite';
import { describe } from '@jest/globals';
import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';
import { mikroOrmFence, pgliteFence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import {
  ACCOUNT_DDL,
  createPostgresAccounts,
  fencedAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
  type Account,
  type OpenStore,
} from './support/account-stores.ts';

// A spec of its own: these packages are ES modules only, which the suite in CommonJS cannot load.

async function openMikroOrm(url: string): Promise<OpenStore> {
  const accounts = new EntitySchema<Account>({
    name: 'Account',
    tableName: 'account',
    properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
  });
  const pool = { min: 0, max: 30 };
  const orm = await MikroORM.init({ clientUrl: url, entities: [accounts], pool });
  const store = fencedAccounts(mikroOrmFence(orm.em), {
    read: async (resource) => (await orm.em.fork().findOne(accounts, { resource }))?.text ?? null,
    write: (entityManager, resource, text) => entityManager.upsert(accounts, { resource, text }),
  });
  return { store, close: () => orm.close() };
}

async function openPglite(): Promise<OpenStore> {
  const database = await PGlite.create();
  const fence = pgliteFence(database);
  await database.exec(`${ACCOUNT_DDL.postgresql}; ${fence.ddl()}`);
  const store = fencedAccounts(fence, {
    read: async (resource) => firstText((await database.query(SELECT.postgresql, [resource])).rows),
    write: (transaction, resource, text) => transaction.query(UPSERT.postgresql, [resource, text]),
  });
  return { store, close: () => database.close() };
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itConforms('MikroORM', () => openMikroOrm(database.url));
});

itConforms('PGlite, with the SQL of PostgreSQL,', openPglite);
