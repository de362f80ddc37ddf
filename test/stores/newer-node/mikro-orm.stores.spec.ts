import { describe, expect, it } from '@jest/globals';
import { FencingToken, mikroOrmFence } from '../../../lib/fencing/index.ts';
import {
  createPostgresAccounts,
  AGED,
  fencedAccounts,
  itConforms,
  type Account,
  type OpenStore,
} from '../../fencing/support/account-stores.ts';
import { usePostgres } from '../../support/databases/use-databases.ts';

// Version 7 asks for Node.js 22. It has a package folder of its own, so that an install of the project on Node.js 20 prints no warning,
// and its types are missing until that folder is installed.
const packageName: string = '@mikro-orm/postgresql';
const { EntitySchema, MikroORM } = await import(packageName);

const accounts = new EntitySchema({
  name: 'Account',
  tableName: 'account',
  properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
});

async function openMikroOrm(url: string): Promise<OpenStore> {
  const pool = { min: 0, max: 30 };
  const orm = await MikroORM.init({ clientUrl: url, entities: [accounts], pool });
  const store = fencedAccounts<any>(mikroOrmFence(orm.em, AGED), {
    read: async (resource) => {
      const account: Account | null = await orm.em.fork().findOne(accounts, { resource });
      return account?.text ?? null;
    },
    write: (entityManager, resource, text) => entityManager.upsert(accounts, { resource, text }),
  });
  return { store, close: () => orm.close() };
}

const token = new FencingToken(Date.now() * 1_000, ['outside'], 'a');
const refusal = expect.objectContaining({
  code: 'FENCED_USAGE',
  message: expect.stringContaining('outside a transaction'),
});

describe('MikroORM 7 on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itConforms('it', () => openMikroOrm(database.url));

  it('advance works in a transaction of the user and is refused outside', async () => {
    const orm = await MikroORM.init({ clientUrl: database.url, entities: [accounts] });
    try {
      const fence = mikroOrmFence(orm.em.fork());
      await orm.em.fork().transactional((own: any) => fence.advance(own, token));
      await expect(fence.advance(orm.em.fork(), token)).rejects.toEqual(refusal);
    } finally {
      await orm.close();
    }
  });

  it.each([
    [[], true],
    [['redlock_fence'], false],
  ])(
    'its schema generator drops the table unless skipTables names it: %j',
    async (skipTables, drops) => {
      const orm = await MikroORM.init({
        clientUrl: database.url,
        entities: [accounts],
        schemaGenerator: { skipTables },
      });
      try {
        const sql = await orm.schema.getUpdateSchemaSQL();
        expect(/drop table[^;]*redlock_fence/i.test(sql)).toBe(drops);
      } finally {
        await orm.close();
      }
    },
  );
});
