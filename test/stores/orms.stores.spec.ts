import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from '@jest/globals';
import { drizzleFence, mikroOrmFence } from '../../lib/fencing/index.ts';
import {
  ACCOUNT_DDL,
  AGED,
  createMariadbAccounts,
  createPostgresAccounts,
  firstText,
  SELECT,
} from '../fencing/support/account-stores.ts';
import { openPrismaClient, prismaAccounts } from '../fencing/support/prisma-accounts.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import {
  itFences,
  itNoticesTheEnd,
  loadPackage,
  type FencedClient,
} from './support/fenced-client.ts';

const CONNECTIONS = 30;

function mikroOrmClient(orm: any, accounts: unknown): Omit<FencedClient, 'close'> {
  return {
    fence: mikroOrmFence(orm.em, AGED),
    accounts: {
      read: async (resource) => (await orm.em.fork().findOne(accounts, { resource }))?.text ?? null,
      write: (entityManager, resource, text) => entityManager.upsert(accounts, { resource, text }),
    },
    outside: [orm.em, orm.em.fork()],
    run: (work) => orm.em.fork().transactional(work),
    execute: (entityManager, sql) =>
      entityManager.getConnection().execute(sql, [], 'all', entityManager.getTransactionContext()),
  };
}

function accountEntity(): unknown {
  const { EntitySchema } = loadPackage('@mikro-orm/core');
  return new EntitySchema({
    name: 'Account',
    tableName: 'account',
    properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  const openDrizzle = (): FencedClient => {
    const client = loadPackage('postgres')(database.url, {
      max: CONNECTIONS,
      onnotice: () => undefined,
    });
    const { sql } = loadPackage('drizzle-orm');
    const db = loadPackage('drizzle-orm/postgres-js').drizzle(client);
    return {
      fence: drizzleFence(db, { ...AGED, sql }),
      accounts: {
        read: async (resource) => firstText(await client.unsafe(SELECT.postgresql, [resource])),
        write: (transaction, resource, text) =>
          transaction.execute(
            sql`INSERT INTO account (resource, text) VALUES (${resource}, ${text}) ON CONFLICT (resource) DO UPDATE SET text = EXCLUDED.text`,
          ),
      },
      outside: [db],
      run: (work) => db.transaction(work),
      execute: (transaction, text) => transaction.execute(sql.raw(text)),
      close: () => client.end(),
    };
  };

  itFences('Drizzle over postgres.js', openDrizzle);
  itNoticesTheEnd('Drizzle over postgres.js', openDrizzle);
});

describe('on MariaDB', () => {
  const database = useMariadb(createMariadbAccounts);

  const openPrisma = async (): Promise<FencedClient> => {
    const { PrismaMariaDb } = loadPackage('@prisma/adapter-mariadb');
    const { hostname, port, username, password, pathname } = new URL(database.url);
    const adapter = new PrismaMariaDb({
      host: hostname,
      port: Number(port),
      user: username,
      password,
      database: pathname.slice(1),
      connectionLimit: CONNECTIONS,
    });
    const { prisma, fence, close } = await openPrismaClient(adapter, 'mysql', AGED);
    return {
      fence: fence as FencedClient['fence'],
      accounts: prismaAccounts(prisma),
      outside: [prisma],
      run: (work) => prisma.$transaction(work),
      execute: (transaction, text) => transaction.$executeRawUnsafe(text),
      close,
    };
  };
  const openMikroOrm = async (): Promise<FencedClient> => {
    const { MikroORM } = loadPackage('@mikro-orm/mariadb');
    const entity = accountEntity();
    const pool = { min: 0, max: CONNECTIONS };
    const orm = await MikroORM.init({ clientUrl: database.url, entities: [entity], pool });
    return { ...mikroOrmClient(orm, entity), close: () => orm.close() };
  };

  itFences('Prisma with adapter-mariadb', openPrisma);
  itNoticesTheEnd('Prisma with adapter-mariadb', openPrisma);
  itFences('MikroORM', openMikroOrm);
  itNoticesTheEnd('MikroORM', openMikroOrm);
});

describe('on SQLite', () => {
  const openMikroOrm = async (): Promise<FencedClient> => {
    const { MikroORM } = loadPackage('@mikro-orm/libsql');
    const folder = await mkdtemp(join(tmpdir(), 'mikro-orm-'));
    const entity = accountEntity();
    const orm = await MikroORM.init({ dbName: join(folder, 'test.db'), entities: [entity] });
    const client = mikroOrmClient(orm, entity);
    for (const ddl of [ACCOUNT_DDL.sqlite, client.fence.ddl()])
      await orm.em.getConnection().execute(ddl);
    const close = async (): Promise<void> => {
      await orm.close();
      await rm(folder, { recursive: true });
    };
    return { ...client, close };
  };

  itFences('MikroORM', openMikroOrm, { levels: [] });
  itNoticesTheEnd('MikroORM', openMikroOrm);
});
