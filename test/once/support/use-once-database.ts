import { afterAll, beforeAll } from '@jest/globals';
import { useMariadb, usePostgres } from '../../support/databases/use-databases.ts';
import { createTables, OPEN, type OnceDatabase } from './databases.ts';

const SERVERS: Readonly<Record<string, () => { readonly url: string }>> = {
  PostgreSQL: () => usePostgres(async () => undefined),
  MariaDB: () => useMariadb(async () => undefined),
  SQLite: () => ({ url: ':memory:' }),
};

/** Opens a database of its own, with its tables, before the tests of this block. */
export function useOnceDatabase(kind: string): OnceDatabase {
  const server = SERVERS[kind]!();
  const database = {} as OnceDatabase;
  beforeAll(async () => {
    Object.assign(database, OPEN[kind]!(server.url));
    await createTables(database);
  });
  afterAll(async () => {
    await database.close();
  });
  return database;
}
