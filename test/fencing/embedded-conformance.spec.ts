import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence } from '../../lib/fencing/index.ts';
import type { FenceStore } from '../../lib/testing/index.ts';
import {
  ACCOUNT_DDL,
  AGED,
  fencedAccounts,
  firstText,
  itConformsWithEach,
  SELECT,
  UPSERT,
  type OpenStore,
} from './support/account-stores.ts';
import { FORGET } from './support/forget.ts';
import { nodeSqlite, type OpenSqlite } from './support/node-sqlite.ts';
import { openKnex, openTypeorm } from './support/orm-accounts.ts';

describe('on SQLite', () => {
  let folder: string;
  beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'fenced-lock-sqlite-'))));
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** A new one with the tables. */
  function databaseFile(name: string): string {
    const file = join(folder, name);
    const database = new Database(file);
    database.exec(ACCOUNT_DDL.sqlite);
    database.exec(sqliteFence(database).ddl());
    database.close();
    return file;
  }

  function opened(database: OpenSqlite): OpenStore {
    const store = fencedAccounts(sqliteFence(database, AGED), {
      read: async (resource) => firstText(database.prepare(SELECT.questionMark).all(resource)),
      write: async (connection, resource, text) =>
        connection.prepare(`${UPSERT.sqlite} RETURNING 1`).all(resource, text),
      forget: (before) => database.prepare(`${FORGET.questionMark} RETURNING 1`).all(before),
    });
    return { store, close: () => database.close() };
  }

  itConformsWithEach({
    'better-sqlite3': () => opened(new Database(databaseFile('better-sqlite3'))),
    'node:sqlite, where Node.js has it,': () =>
      opened(new (nodeSqlite() ?? Database)(databaseFile('node-sqlite'))),
    // One connection, so one transaction at a time: the application has to take turns.
    TypeORM: async () => {
      const database = databaseFile('typeorm');
      const { store, close } = await openTypeorm({ type: 'better-sqlite3', database });
      return { store: inTurns(store), close };
    },
    Knex: () =>
      openKnex({
        client: 'better-sqlite3',
        connection: { filename: databaseFile('knex') },
        useNullAsDefault: true,
        pool: { min: 1, max: 1 },
      }),
  });
});

/** Runs the store's calls one after another. */
function inTurns(store: FenceStore): FenceStore {
  let last: Promise<unknown> = Promise.resolve();
  const turn = <Result>(run: () => Promise<Result>): Promise<Result> => {
    const result = last.then(run);
    last = result.catch(() => undefined);
    return result;
  };
  return {
    ...store,
    prune: (past) => turn(() => store.prune!(past)),
    claim: (ticket) => turn(() => store.claim(ticket)),
    read: (ticket) => turn(() => store.read(ticket)),
    write: (ticket, text, pause) => turn(() => store.write(ticket, text, pause)),
  };
}
