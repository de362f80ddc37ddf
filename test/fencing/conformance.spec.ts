import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from '@jest/globals';
import Database from 'libsql';
import { sqliteFence, type IsolationLevel, type SqlDialect } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import {
  ACCOUNT_DDL,
  AGED,
  createMariadbAccounts,
  createPostgresAccounts,
  itConforms,
  openAccounts,
  plainMariadb,
  plainPostgres,
  plainSqlite,
  type OpenStore,
  type Plain,
} from './support/accounts.ts';
import { CLIENTS, pglite, type DatabaseName } from './support/clients.ts';

// Drivers and ORMs must all pass the kit; `npm test` looks at the first driver of each database only.
const isInFull = Number(process.env.FENCE_STRESS ?? 1) >= 1;

interface Place {
  readonly dialect: SqlDialect;
  readonly levels: readonly IsolationLevel[];
  /** A database for one store, or for all of them. */
  readonly open: () => Promise<{
    readonly url: string;
    readonly plain: Plain;
    readonly close?: () => unknown;
  }>;
}

describe('a fence over', () => {
  const postgres = usePostgres(createPostgresAccounts);
  const mariadb = useMariadb(createMariadbAccounts);
  let folder: string;
  beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'fenced-lock-kit-'))));
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await pglite.close();
  });

  let files = 0;
  const places: Readonly<Record<DatabaseName, Place>> = {
    PostgreSQL: {
      dialect: 'postgresql',
      levels: ['repeatable read', 'serializable'],
      open: async () => ({ url: postgres.url, plain: plainPostgres(postgres.pool) }),
    },
    PGlite: {
      dialect: 'postgresql',
      levels: [],
      open: async () => ({ url: '', plain: plainPostgres((await pglite.start()) as any) }),
    },
    MariaDB: {
      dialect: 'mysql',
      levels: ['read committed', 'serializable'],
      open: async () => ({ url: mariadb.url, plain: plainMariadb(mariadb.pool) }),
    },
    SQLite: {
      dialect: 'sqlite',
      levels: [],
      open: async () => {
        const url = join(folder, `${(files += 1)}.db`);
        const database = new Database(url, { timeout: 0 });
        database.exec(`${ACCOUNT_DDL.sqlite}; ${sqliteFence(database).ddl()}`);
        return { url, plain: plainSqlite(database), close: () => database.close() };
      },
    },
  };

  const stores: Record<string, () => Promise<OpenStore>> = {};
  for (const [on, clients] of Object.entries(CLIENTS) as [DatabaseName, typeof CLIENTS.SQLite][]) {
    const { dialect, levels, open: openPlace } = places[on];
    const [first, ...others] = Object.keys(clients);
    const add = (name: string, level?: IsolationLevel): void => {
      stores[`${name} on ${on}${level ? ` at ${level}` : ''}`] = async () => {
        const { url, plain, close: closePlace } = await openPlace();
        const { read } = plain;
        const { store, close } = await openAccounts(
          clients[name]!(url, AGED),
          dialect,
          // The database does the same with rows that are gone for all: one of them is enough.
          name === first ? plain : { read },
          level,
        );
        return {
          store,
          close: async () => {
            await close();
            closePlace?.();
          },
        };
      };
    };
    add(first!);
    if (!isInFull) continue;
    for (const name of others) add(name);
    for (const level of levels) add(first!, level);
  }
  itConforms(stores);
});
