import { describe } from '@jest/globals';
import { usePostgres } from '../support/databases/use-databases.ts';
import { createPostgresAccounts, itConforms } from './support/account-stores.ts';
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

  itConforms('pg', () => openPg(database.url));
  itConforms('pg with prepared statements', () => openPg(database.url, { prepared: true }));
  itConforms('TypeORM', () =>
    openTypeorm({ type: 'postgres', url: database.url, poolSize: CONNECTIONS }),
  );
  itConforms('Drizzle', () => openDrizzle(database.url));
  itConforms('Knex', () => openKnex({ client: 'pg', connection: database.url }));
  itConforms('Kysely', () => openKysely(database.url, 'postgresql'));
  itConforms('Prisma with adapter-pg', () => openPrisma(database.url));
});
