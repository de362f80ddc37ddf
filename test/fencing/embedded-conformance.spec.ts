import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence } from '../../lib/fencing/index.ts';
import type { FenceStore } from '../../lib/testing/fencing.ts';
import {
  ACCOUNT_DDL,
  fencedAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
  type OpenStore,
} from './support/account-stores.ts';
import { nodeSqlite, type OpenSqlite } from './support/node-sqlite.ts';
import { openKnex, openTypeorm } from './support/orm-accounts.ts';

describe('on SQLite', () => {
  let folder: string;
  let file: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fenced-lock-sqlite-'));
    file = join(folder, 'data.db');
    const database = new Database(file);
    database.exec(ACCOUNT_DDL.sqlite);
    database.exec(sqliteFence(database).ddl());
    database.close();
  });

  afterEach(() => rm(folder, { recursive: true, force: true }));

  function opened(database: OpenSqlite): OpenStore {
    const store = fencedAccounts(sqliteFence(database), {
      read: async (resource) => firstText(database.prepare(SELECT.questionMark).all(resource)),
      write: async (connection, resource, text) =>
        connection.prepare(`${UPSERT.sqlite} RETURNING 1`).all(resource, text),
    });
    return { store, close: () => database.close() };
  }

  itConforms('better-sqlite3', () => opened(new Database(file)));

  itConforms('node:sqlite, where Node.js has it,', () =>
    opened(new (nodeSqlite() ?? Database)(file)),
  );

  // One connection, so one transaction at a time: the application has to take turns.
  itConforms('TypeORM', async () => {
    const { store, close } = await openTypeorm({ type: 'better-sqlite3', database: file });
    return { store: inTurns(store), close };
  });

  itConforms('Knex', () =>
    openKnex({
      client: 'better-sqlite3',
      connection: { filename: file },
      useNullAsDefault: true,
      pool: { min: 1, max: 1 },
    }),
  );
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
    claim: (ticket) => turn(() => store.claim(ticket)),
    read: (ticket) => turn(() => store.read(ticket)),
    write: (ticket, text, pause) => turn(() => store.write(ticket, text, pause)),
  };
}
