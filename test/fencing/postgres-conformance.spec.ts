import { describe } from '@jest/globals';
import { usePostgres } from '../support/databases/use-databases.ts';
import { createPostgresAccounts, itConformsWithEach } from './support/account-stores.ts';
import {
  CONNECTIONS,
  openDrizzle,
  openKnex,
  openKysely,
  openPg,
  openTypeorm,
} from './support/orm-accounts.ts';
import { openPrisma } from './support/prisma-accounts.ts';

// Every driver and ORM, with its own way to read and write, must pass the kit on a real PostgreSQL.

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itConformsWithEach({
    pg: () => openPg(database.url),
    'pg at REPEATABLE READ': () => openPg(database.url, {}, 'repeatable read'),
    'pg at SERIALIZABLE': () => openPg(database.url, {}, 'serializable'),
    'pg with prepared statements': () => openPg(database.url, { prepared: true }),
    TypeORM: () => openTypeorm({ type: 'postgres', url: database.url, poolSize: CONNECTIONS }),
    Drizzle: () => openDrizzle(database.url),
    Knex: () => openKnex({ client: 'pg', connection: database.url }),
    Kysely: () => openKysely(database.url, 'postgresql'),
    'Prisma with adapter-pg': () => openPrisma(database.url),
  });
});
