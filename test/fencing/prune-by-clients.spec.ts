import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence, type SqlFenceOptions } from '../../lib/fencing/index.ts';
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

type Client = Pick<OpenClient, 'fence' | 'close'>;

/** Clients differ in what they answer to a DELETE. */
function itPrunes(
  name: string,
  open: (options?: SqlFenceOptions) => Client | Promise<Client>,
): void {
  it(`${name}: tells how many keys it deleted, and admits none of their tokens`, async () => {
    const ofAllAges = await open();
    const { fence, close } = await open({ maxAge: '30d' });
    const keys = Array.from({ length: 130 }, (_none, index) => `${name}:${index}`);
    const days = (count: number) => (Date.now() - count * DAY) * 1_000;
    try {
      await ofAllAges.fence.claim({ value: days(40), keys, holder: 'old' });
      await fence.claim({ value: days(20), keys: [`${name}:young`], holder: 'young' });
      await expect(fence.prune()).resolves.toBe(130);
      const late = { value: days(31), keys: [keys[0]!], holder: 'late' };
      const refusal = { code: 'STALE_TOKEN', currentHolder: '' };
      await expect(fence.claim(late)).rejects.toMatchObject(refusal);
      await expect(fence.transaction(late, () => 'ran')).rejects.toMatchObject(refusal);
      await expect(fence.check()).resolves.toEqual([]);
    } finally {
      await close();
      await ofAllAges.close();
    }
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itPrunes('TypeORM', (age) => typeormClient({ type: 'postgres', url: database.url }, age));
  itPrunes('Knex', (age) => knexClient({ client: 'pg', connection: database.url }, age));
  itPrunes('Kysely', (age) => kyselyClient(database.url, 'postgresql', age));
  itPrunes('Drizzle', (age) => drizzleClient(database.url, 'postgresql', age));
  itPrunes('Prisma', (age) => openPrismaClient(prismaPg(database.url), 'postgresql', age));
});

describe('on MariaDB', () => {
  const database = useMariadb(createMariadbAccounts);

  itPrunes('TypeORM', (age) => typeormClient({ type: 'mariadb', url: database.url }, age));
  itPrunes('Knex', (age) => knexClient({ client: 'mysql2', connection: database.url }, age));
  itPrunes('Kysely', (age) => kyselyClient(database.url, 'mysql', age));
  itPrunes('Drizzle', (age) => drizzleClient(database.url, 'mysql', age));
});

describe('on SQLite', () => {
  let folder: string;
  beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'fenced-lock-prune-'))));
  afterAll(() => rm(folder, { recursive: true, force: true }));
  const fileOf = (name: string): string => {
    const database = new Database(join(folder, name));
    database.exec(sqliteFence(database).ddl());
    database.close();
    return join(folder, name);
  };

  itPrunes('TypeORM', (age) =>
    typeormClient({ type: 'better-sqlite3', database: fileOf('typeorm') }, age),
  );
  itPrunes('Knex', (age) => {
    const connection = { filename: fileOf('knex') };
    return knexClient({ client: 'better-sqlite3', connection, useNullAsDefault: true }, age);
  });
});
