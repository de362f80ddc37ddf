import { describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { createMariadbAccounts, createPostgresAccounts } from './support/account-stores.ts';
import {
  drizzleClient,
  knexClient,
  kyselyClient,
  typeormClient,
  type OpenClient,
} from './support/open-clients.ts';
import { openPrismaClient, prismaPg } from './support/prisma-accounts.ts';

const DAY = 86_400_000;

/** Clients differ in what they answer to a DELETE. */
function itPrunes(
  name: string,
  open: () => Pick<OpenClient, 'fence' | 'close'> | Promise<Pick<OpenClient, 'fence' | 'close'>>,
): void {
  it(`${name}: tells how many keys it deleted, and admits none of their tokens`, async () => {
    const { fence, close } = await open();
    const keys = Array.from({ length: 130 }, (_none, index) => `${name}:${index}`);
    const days = (count: number) => (Date.now() - count * DAY) * 1_000;
    try {
      await fence.claim({ value: days(40), keys, holder: 'old' });
      await expect(fence.prune({ olderThan: '41d' })).resolves.toBe(0);
      await expect(fence.prune({ olderThan: '40d' })).resolves.toBe(130);
      const late = fence.claim({ value: days(41), keys: [keys[0]!], holder: 'late' });
      await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN', currentHolder: '' });
      await expect(fence.check()).resolves.toEqual([]);
    } finally {
      await close();
    }
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itPrunes('TypeORM', () => typeormClient({ type: 'postgres', url: database.url }));
  itPrunes('Knex', () => knexClient({ client: 'pg', connection: database.url }));
  itPrunes('Kysely', () => kyselyClient(database.url, 'postgresql'));
  itPrunes('Drizzle', () => drizzleClient(database.url, 'postgresql'));
  itPrunes('Prisma', () => openPrismaClient(prismaPg(database.url)));
});

describe('on MariaDB', () => {
  const database = useMariadb(createMariadbAccounts);

  itPrunes('TypeORM', () => typeormClient({ type: 'mariadb', url: database.url }));
  itPrunes('Knex', () => knexClient({ client: 'mysql2', connection: database.url }));
  itPrunes('Kysely', () => kyselyClient(database.url, 'mysql'));
  itPrunes('Drizzle', () => drizzleClient(database.url, 'mysql'));
});

describe('on SQLite', () => {
  const ddl = sqliteFence(new Database(':memory:')).ddl();

  itPrunes('TypeORM', async () => {
    const client = await typeormClient({ type: 'better-sqlite3', database: ':memory:' });
    await (client.outside[0] as { query(sql: string): Promise<unknown> }).query(ddl);
    return client;
  });
  itPrunes('Knex', async () => {
    const connection = { filename: ':memory:' };
    const client = knexClient({ client: 'better-sqlite3', connection, useNullAsDefault: true });
    await (client.outside[0] as { raw(sql: string): Promise<unknown> }).raw(ddl);
    return client;
  });
});
