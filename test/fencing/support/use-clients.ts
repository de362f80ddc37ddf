import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';
import { useMariadb, usePostgres } from '../../support/databases/use-databases.ts';
import { CLIENTS, pglite, type DatabaseName, type FencedClient } from './clients.ts';

/** Each driver and ORM, and the database that it is over. */
export const EACH_CLIENT = Object.entries(CLIENTS).flatMap(([on, drivers]) =>
  Object.keys(drivers).map((name) => [name, on as DatabaseName] as const),
);

interface Servers {
  readonly postgres: { readonly url: string };
  readonly mariadb: { readonly url: string };
}

/** Where each client finds its database. Each of SQLite has a file of its own: two drivers may not have the same one. */
export function useClientUrls({ postgres, mariadb }: Servers) {
  const folder = mkdtempSync(join(tmpdir(), 'each-client-'));
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await pglite.close();
  });
  const urls: Readonly<Record<DatabaseName, (name: string) => string>> = {
    PostgreSQL: () => postgres.url,
    PGlite: () => '',
    MariaDB: () => mariadb.url,
    SQLite: (name) => join(folder, `${name.replace(':', '-')}.db`),
  };
  return (name: string, on: DatabaseName): string => urls[on](name);
}

/** Gives each client a database, which the clients of a server share. */
export function useClients(): (name: string, on: DatabaseName) => Promise<FencedClient> {
  const postgres = usePostgres(async () => undefined);
  const mariadb = useMariadb(async () => undefined);
  const urlOf = useClientUrls({ postgres, mariadb });
  return async (name, on) => CLIENTS[on][name]!(urlOf(name, on));
}
