import { describe } from '@jest/globals';
import { mikroOrmFence } from '../../../lib/fencing/index.ts';
import { createPostgresAccounts, plainPostgres } from '../../../test/fencing/support/accounts.ts';
import type { OpenClient } from '../../../test/fencing/support/clients.ts';
import { usePostgres } from '../../../test/support/databases/use-databases.ts';
import { itFences } from '../support/fenced-client.ts';

// Version 7 asks for Node.js 22. It has a package folder of its own, so that an install of the project on Node.js 20 prints no warning,
// and its types are missing until that folder is installed.
const packageName: string = '@mikro-orm/postgresql';
const { EntitySchema, MikroORM } = await import(packageName);

const accounts = new EntitySchema({
  name: 'Account',
  tableName: 'account',
  properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
});

const openMikroOrm: OpenClient = async (clientUrl, options) => {
  const pool = { min: 0, max: 30 };
  const orm = await MikroORM.init({ clientUrl, entities: [accounts], pool });
  return {
    fence: mikroOrmFence(orm.em, options),
    outside: [orm.em.fork()],
    run: (work) => orm.em.fork().transactional(work),
    execute: (manager, sql) =>
      manager.getConnection().execute(sql, [], 'all', manager.getTransactionContext()),
    close: () => orm.close(),
  };
};

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);
  const plain = () => plainPostgres(database.pool);
  itFences('MikroORM 7', openMikroOrm, 'postgresql', plain, { url: () => database.url });
});
