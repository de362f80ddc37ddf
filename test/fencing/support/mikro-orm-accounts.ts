import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';
import { mikroOrmFence } from '../../../lib/fencing/index.ts';
import { fencedAccounts } from './account-stores.ts';
import type { OpenStore } from './postgres-accounts.ts';

interface Account {
  resource: string;
  text: string;
}

export async function openMikroOrm(url: string): Promise<OpenStore> {
  const accounts = new EntitySchema<Account>({
    name: 'Account',
    tableName: 'account',
    properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
  });
  const orm = await MikroORM.init({
    clientUrl: url,
    entities: [accounts],
    pool: { min: 0, max: 30 },
  });
  const store = fencedAccounts(mikroOrmFence(orm.em), {
    read: async (resource) => (await orm.em.fork().findOne(accounts, { resource }))?.text ?? null,
    write: (entityManager, resource, text) => entityManager.upsert(accounts, { resource, text }),
  });
  return { store, close: () => orm.close() };
}
