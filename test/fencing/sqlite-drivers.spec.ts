import 'reflect-metadata';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import { Test } from '@nestjs/testing';
import knexModule from 'knex';
import Libsql from 'libsql';
import { knexFence, sqliteFence, type Fence, type SqliteFence } from '../../lib/fencing/index.ts';
import { redlockInMemory } from '../nest/support/applications.ts';
import { runCommand } from '../support/redis-servers/run-command.ts';
import { secondDriver } from './support/second-driver.ts';
import { SQLITE_DRIVERS, type OpenSqlite, type SqliteDriver } from './support/sqlite-drivers.ts';

// The locks of files belong to a process, and each driver has an SQLite of its own, which can't see those of another one.

const now = Date.now() * 1_000;
const token = (value: number) => ({ value: now + value, keys: ['seat'], holder: `h${value}` });

let copies: string;
let folder: string;
let Second: SqliteDriver;
const opened: { close(): unknown }[] = [];
beforeAll(() => {
  copies = mkdtempSync(join(tmpdir(), 'fenced-lock-second-driver-'));
  Second = secondDriver(copies);
});
afterAll(() => rmSync(copies, { recursive: true }));
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fenced-lock-drivers-'));
});
afterEach(() => {
  for (const each of opened.splice(0)) each.close();
  rmSync(folder, { recursive: true });
});

const open = (Driver: SqliteDriver, file = join(folder, 'data.db')): OpenSqlite => {
  const database = new Driver(file);
  opened.push(database);
  return database;
};
const tokensIn = (database: OpenSqlite) =>
  database.prepare('SELECT token FROM redlock_fence').all();

const USES: Readonly<Record<string, (fence: SqliteFence<OpenSqlite>, on: OpenSqlite) => unknown>> =
  {
    transaction: (fence) => fence.transaction(token(10), () => 'ran'),
    claim: (fence) => fence.claim(token(10)),
    prune: (fence) => fence.prune(),
    advance: async (fence, database) => {
      database.exec('BEGIN IMMEDIATE');
      try {
        await fence.advance(database, token(10));
      } finally {
        database.exec('ROLLBACK');
      }
    },
  };

const refusal = {
  code: 'REDLOCK_CONFIG',
  message: expect.stringMatching(/\.db with two drivers .*Nothing was written/),
};
const older = (fence: Fence) => fence.transaction(token(10), () => 'ran');

/** A fence that has let the token 20 in. */
const fencedWith = async (file?: string): Promise<OpenSqlite> => {
  const database = open(Libsql as SqliteDriver, file);
  const fence = sqliteFence(database);
  database.exec(fence.ddl());
  await fence.claim(token(20));
  return database;
};

describe.each(['DELETE', 'WAL'])('two drivers on one file, with journal_mode %s', (mode) => {
  it.each(Object.keys(USES))(
    'are refused by %s, so that no older token comes after a newer one',
    async (name) => {
      const database = open(Libsql as SqliteDriver);
      const fence = sqliteFence(database);
      database.exec(`PRAGMA journal_mode = ${mode}; ${fence.ddl()}`);
      const other = open(Second);
      const second = sqliteFence(other, { maxAge: '1d' });
      let use: Promise<unknown> | undefined;
      await fence.transaction(token(20), async () => {
        use = Promise.resolve(USES[name]!(second, other));
        await use.catch(() => undefined);
      });
      await expect(use).rejects.toMatchObject(refusal);
      expect(tokensIn(database)).toEqual([{ token: now + 20 }]);
    },
  );
});

it.each(Object.keys(SQLITE_DRIVERS))(
  'fences over %s and over another driver exclude each other',
  async (name) => {
    const Driver = SQLITE_DRIVERS[name]!;
    const first = sqliteFence(open(Driver));
    const own = open(Driver);
    own.exec(first.ddl());
    await first.claim(token(20));
    await expect(sqliteFence(own).claim(token(10))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await expect(sqliteFence(open(Second)).claim(token(30))).rejects.toMatchObject(refusal);
  },
);

it('a file is the same one by every name, also for an ORM, and for another copy of this package', async () => {
  await fencedWith();
  const at = (name: string) => join(folder, name);
  symlinkSync('data.db', at('symbolic.db'));
  linkSync(at('data.db'), at('hard.db'));
  mkdirSync(at('below'));
  symlinkSync('..', at('below/up'));
  for (const name of ['data.db', 'symbolic.db', 'hard.db', 'below/up/data.db'])
    await expect(older(sqliteFence(open(Second, at(name))))).rejects.toMatchObject(refusal);

  const attached = open(Second, ':memory:');
  attached.exec(`ATTACH '${at('data.db')}' AS other`);
  const there = sqliteFence(attached, { table: 'other.redlock_fence' });
  await expect(older(there)).rejects.toMatchObject(refusal);

  const connection = { filename: at('data.db') };
  const knex = knexModule({ client: 'better-sqlite3', connection, useNullAsDefault: true });
  knex.client.driver = Second;
  await expect(older(knexFence(knex))).rejects.toMatchObject(refusal);
  await knex.destroy();

  jest.resetModules();
  const copy = await import('../../lib/fencing/index.ts');
  expect(copy.sqliteFence).not.toBe(sqliteFence);
  await expect(older(copy.sqliteFence(open(Second)))).rejects.toMatchObject(refusal);
});

it('a file may be made after the fence, and anew after another driver had it', async () => {
  const file = join(folder, 'late.db');
  const late = open(Second, file);
  const fence = sqliteFence(late);
  await fencedWith(file);
  await expect(older(fence)).rejects.toMatchObject(refusal);
  for (const each of opened.splice(0)) each.close();
  rmSync(file);
  const anew = open(Second, file);
  anew.exec(sqliteFence(anew).ddl());
  await expect(older(sqliteFence(anew))).resolves.toBe('ran');
});

it.each([':memory:', ''])(
  'databases with the name %j are nobody else’s, whatever their drivers',
  async (name) => {
    await fencedWith(name);
    const database = open(Second, name);
    database.exec(sqliteFence(database).ddl());
    await expect(older(sqliteFence(database))).resolves.toBe('ran');
  },
);

it('the check at the start finds a second driver, and the application does not start', async () => {
  await fencedWith();
  const fence = sqliteFence(open(Second));
  const imports = [redlockInMemory({ fence })];
  await expect(
    Test.createTestingModule({ imports })
      .compile()
      .then((made) => made.init()),
  ).rejects.toMatchObject(refusal);
});

it('another process may have another driver: the file orders both', async () => {
  const database = await fencedWith();
  const program = `
    import { createRequire } from 'node:module';
    import { sqliteFence } from './lib/fencing/index.ts';
    const Driver = createRequire(${JSON.stringify(join(copies, 'package.json'))})('libsql');
    const fence = sqliteFence(new Driver(${JSON.stringify(join(folder, 'data.db'))}));
    const claim = (value) => fence.claim({ ...${JSON.stringify(token(0))}, value }).catch(({ code }) => code);
    console.log(await claim(${now + 10}), await claim(${now + 30}));
  `;
  const loader = ['--import', './test/support/typescript-loader.mjs', '--input-type=module'];
  const environment = { ...process.env, NODE_OPTIONS: '' };
  const said = await runCommand(process.execPath, [...loader, '-e', program], { environment });
  expect(said.trim()).toBe('STALE_TOKEN undefined');
  expect(tokensIn(database)).toEqual([{ token: now + 30 }]);
  await expect(sqliteFence(database).claim(token(20))).rejects.toMatchObject({
    code: 'STALE_TOKEN',
  });
});
