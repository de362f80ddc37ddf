import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from '@jest/globals';
import Database from 'libsql';
import { drizzleFence, mikroOrmFence, sqliteFence } from '../../lib/fencing/index.ts';
import {
  ACCOUNT_DDL,
  createMariadbAccounts,
  createPostgresAccounts,
  plainMariadb,
  plainPostgres,
  plainSqlite,
} from '../../test/fencing/support/accounts.ts';
import type { OpenClient } from '../../test/fencing/support/clients.ts';
import { openPrismaClient } from '../../test/fencing/support/prisma-client.ts';
import { useMariadb, usePostgres } from '../../test/support/databases/use-databases.ts';
import { itFences, loadPackage } from './support/fenced-client.ts';

const CONNECTIONS = 30;

const mikroOrm =
  (packageName: string, settings: (url: string) => object): OpenClient =>
  async (url, options) => {
    const { MikroORM } = loadPackage(packageName);
    const { EntitySchema } = loadPackage('@mikro-orm/core');
    const entity = new EntitySchema({
      name: 'Account',
      tableName: 'account',
      properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
    });
    const orm = await MikroORM.init({ entities: [entity], ...settings(url) });
    return {
      fence: mikroOrmFence(orm.em, options),
      outside: [orm.em, orm.em.fork()],
      run: (work) => orm.em.fork().transactional(work),
      execute: (manager, sql) =>
        manager.getConnection().execute(sql, [], 'all', manager.getTransactionContext()),
      close: () => orm.close(),
    };
  };

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  const openDrizzle: OpenClient = (url, options) => {
    const client = loadPackage('postgres')(url, { max: CONNECTIONS, onnotice: () => undefined });
    const { sql } = loadPackage('drizzle-orm');
    const db = loadPackage('drizzle-orm/postgres-js').drizzle(client);
    return {
      fence: drizzleFence(db, { ...options, sql }),
      outside: [db],
      run: (work) => db.transaction(work),
      execute: (transaction, text) => transaction.execute(sql.raw(text)),
      close: () => client.end(),
    };
  };
  const plain = () => plainPostgres(database.pool);
  const facts = { url: () => database.url };
  itFences('Drizzle over postgres.js', openDrizzle, 'postgresql', plain, facts);
});

describe('on MariaDB', () => {
  const database = useMariadb(createMariadbAccounts);

  const openPrisma: OpenClient = (address, options) => {
    const { PrismaMariaDb } = loadPackage('@prisma/adapter-mariadb');
    const { hostname, port, username, password, pathname } = new URL(address);
    const adapter = new PrismaMariaDb({
      host: hostname,
      port: Number(port),
      user: username,
      password,
      database: pathname.slice(1),
      connectionLimit: CONNECTIONS,
    });
    return openPrismaClient(adapter, 'mysql', options);
  };
  const openMikroOrm = mikroOrm('@mikro-orm/mariadb', (clientUrl) => ({
    clientUrl,
    pool: { min: 0, max: CONNECTIONS },
  }));
  const plain = () => plainMariadb(database.pool);
  const facts = { url: () => database.url };
  itFences('Prisma with adapter-mariadb', openPrisma, 'mysql', plain, facts);
  itFences('MikroORM', openMikroOrm, 'mysql', plain, facts);
});

describe('on SQLite', () => {
  let folder: string;
  let database: Database.Database;
  const file = (): string => join(folder, 'test.db');
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'mikro-orm-'));
    database = new Database(file(), { timeout: 0 });
    database.exec(`${ACCOUNT_DDL.sqlite}; ${sqliteFence(database).ddl()}`);
  });
  afterAll(() => {
    database.close();
    rmSync(folder, { recursive: true });
  });
  const openMikroOrm = mikroOrm('@mikro-orm/libsql', (dbName) => ({ dbName }));
  const facts = { url: file, levels: [] };
  itFences('MikroORM', openMikroOrm, 'sqlite', () => plainSqlite(database), facts);
});
