import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import knexModule from 'knex';
import { DataSource } from 'typeorm';
import {
  knexFence,
  sqliteFence,
  typeormFence,
  type SqliteDatabase,
} from '../../lib/fencing/index.ts';
import { fenceConformance, type FenceStore } from '../../lib/testing/fencing.ts';
import { ACCOUNT_DDL, fencedAccounts, UPSERT } from './support/account-stores.ts';

const SELECT = 'SELECT text FROM account WHERE resource = ?';
const firstText = (rows: readonly unknown[]): string | null =>
  (rows[0] as { text: string } | undefined)?.text ?? null;

async function failures(store: FenceStore): Promise<unknown[]> {
  const report = await fenceConformance(store);
  return report.cases.filter((each) => each.failure !== undefined);
}

describe('SQLite', () => {
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

  function accounts(database: SqliteDatabase): FenceStore {
    return fencedAccounts(sqliteFence(database), {
      read: async (resource) => firstText(database.prepare(SELECT).all(resource)),
      write: async (connection, resource, text) =>
        connection.prepare(UPSERT.sqlite + ' RETURNING 1').all(resource, text),
    });
  }

  it('through better-sqlite3 passes the conformance kit', async () => {
    const database = new Database(file);
    expect(await failures(accounts(database))).toEqual([]);
    database.close();
  }, 60_000);

  it('through node:sqlite passes the conformance kit, where Node.js has it', async () => {
    const { DatabaseSync } = nodeSqlite() ?? { DatabaseSync: Database };
    const database = new DatabaseSync(file);
    expect(await failures(accounts(database))).toEqual([]);
    database.close();
  }, 60_000);

  it('through TypeORM passes the conformance kit', async () => {
    const source = await new DataSource({ type: 'better-sqlite3', database: file }).initialize();
    // One connection, so one transaction at a time: the application has to take turns.
    expect(
      await failures(
        inTurns(
          fencedAccounts(typeormFence(source), {
            read: async (resource) => firstText(await source.query(SELECT, [resource])),
            write: (manager, resource, text) => manager.query(UPSERT.sqlite, [resource, text]),
          }),
        ),
      ),
    ).toEqual([]);
    await source.destroy();
  }, 60_000);

  it('through Knex passes the conformance kit', async () => {
    const knex = knexModule({
      client: 'better-sqlite3',
      connection: { filename: file },
      useNullAsDefault: true,
    });
    expect(
      await failures(
        fencedAccounts(knexFence(knex), {
          read: async (resource) =>
            firstText(await knex('account').select('text').where({ resource })),
          write: (transaction, resource, text) => transaction.raw(UPSERT.sqlite, [resource, text]),
        }),
      ),
    ).toEqual([]);
    await knex.destroy();
  }, 60_000);
});

/** Node.js 20 has none. */
function nodeSqlite():
  { DatabaseSync: new (path: string) => SqliteDatabase & { close(): void } } | undefined {
  try {
    return createRequire(join(process.cwd(), 'package.json'))('node:sqlite');
  } catch {
    return undefined;
  }
}

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
