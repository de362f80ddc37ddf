import { inspect } from 'node:util';
import { PGlite } from '@electric-sql/pglite';
import { describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import mysql from 'mysql2';
import { Client, Pool } from 'pg';
import * as fencing from '../../lib/fencing/index.ts';
import { RedlockConfigError } from '../../lib/index.ts';

const factories = fencing as unknown as Readonly<
  Record<string, (client: unknown, options?: unknown) => unknown>
>;
const NAMES = Object.keys(fencing).filter((name) => /^[a-z]\w+Fence$/.test(name));

function refusalOf(run: () => unknown): RedlockConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof RedlockConfigError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('a fence that is made with anything but its client', () => {
  it('is tried for all factories', () => expect(NAMES.length).toBe(11));

  it.each(
    NAMES.flatMap((name) => [
      [name, undefined] as const,
      [name, 'postgres://a:hunter2@b/c'] as const,
      [name, {}] as const,
    ]),
  )('%s refuses %j at once, and says what it needs', (name, client) => {
    const error = refusalOf(() => factories[name]!(client, { sql: { raw() {} } }));
    expect(error.option).toBe(name);
    expect(error.message).toMatch(/: it needs .{10,}/);
    expect(inspect(error)).not.toContain('hunter2');
  });

  it('names the Pool where there is a Client', () => {
    expect(refusalOf(() => factories['postgresFence']!(new Client())).message).toMatch(
      /a Pool of pg/,
    );
  });

  it('names the promise pool where there is one with callbacks', async () => {
    const pool = mysql.createPool({});
    expect(refusalOf(() => factories['mysqlFence']!(pool)).message).toMatch(/mysql2\/promise/);
    expect(() => factories['mysqlFence']!(pool.promise())).not.toThrow();
    pool.end();
  });
});

describe('postgresTokenSource', () => {
  const make = fencing.postgresTokenSource as (pool: unknown, options?: unknown) => unknown;

  it.each([
    undefined,
    null,
    'postgres://a:hunter2@b/c',
    new URL('postgres://a:hunter2@b/c'),
    {},
    new Client('postgres://a:hunter2@b/c'),
  ])('refuses anything but a Pool at once', (pool) => {
    const error = refusalOf(() => make(pool));
    expect(error.option).toBe('postgresTokenSource');
    expect(error.message).toMatch(/it needs a Pool of pg/);
    expect(inspect(error)).not.toContain('hunter2');
  });

  it('refuses options that it would ignore', async () => {
    const pool = new Pool();
    expect(refusalOf(() => make(pool, { tabel: 'x' })).message).toMatch(/it is unknown; /);
    expect(refusalOf(() => make(pool, { onStale() {} })).message).toMatch(/takes table\./);
    expect(refusalOf(() => make(pool, null)).message).toMatch(/give an object/);
    expect(refusalOf(() => make(pool, { table: null })).option).toBe('table');
    expect(() => make(pool, { table: 'app.numbers' })).not.toThrow();
    await pool.end();
  });
});

/** Enough for a factory, which does not connect. */
const methods = [
  'connect',
  'query',
  'getConnection',
  'prepare',
  'exec',
  'transaction',
  'execute',
  'raw',
  'eval',
  'fork',
  '$transaction',
];
const client = {
  ...Object.fromEntries(methods.map((name) => [name, () => undefined])),
  client: { config: { client: 'pg' } },
  options: { type: 'postgres' },
  getDriver: () => new (class PostgreSqlDriver {})(),
};
const sql = { raw() {} };
const REQUIRED: Readonly<Record<string, object>> = { drizzleFence: { sql } };

describe('a fence with a listener that is no function', () => {
  it.each(
    NAMES.flatMap((name) => [
      [name, 'onStale', 'refund'] as const,
      [name, 'onStale', Promise.resolve()] as const,
      [name, 'onEvent', null] as const,
      [name, 'onEvent', {}] as const,
    ]),
  )('%s refuses %s at once', (name, option, given) => {
    const make = (value: unknown) =>
      factories[name]!(client, { ...REQUIRED[name], [option]: value });
    const error = refusalOf(() => make(given));
    expect(error.option).toBe(option);
    expect(error.message).toMatch(/give a function/);
    expect(error.message).not.toContain('refund');
    expect(() => make(undefined)).not.toThrow();
    expect(() => make(() => undefined)).not.toThrow();
  });

  it('names the promise of a call that was meant to come later', () => {
    const make = () => factories['pgliteFence']!(client, { onStale: Promise.resolve() });
    expect(refusalOf(make).message).toMatch(/can't be a promise: give a function/);
  });

  it('is refused by observe, too', () => {
    const fence = factories['pgliteFence']!(client) as fencing.Fence;
    expect(() => fence.observe('log' as never)).toThrow(/'listener' can't be a string: give a fun/);
  });
});

describe('a fence with a dialect that it does not speak', () => {
  it.each([
    ['drizzleFence', ['postgres', 'sqlite', 'mariadb', 'constructor', null, 1]],
    ['kyselyFence', ['postgres', 'mariadb', 'constructor', null, 1]],
    ['prismaFence', ['postgres', 'sqlite', 'mariadb', 'constructor', null, 1]],
  ])('%s refuses it at once', (name, dialects) => {
    const make = (dialect: unknown) => () =>
      factories[name]!(client, { ...REQUIRED[name], dialect });
    for (const dialect of dialects) {
      const error = refusalOf(make(dialect));
      expect(error.option).toBe('dialect');
      expect(error.message).toMatch(/the fence knows postgresql, mysql/);
    }
    for (const dialect of [undefined, 'postgresql', 'mysql']) expect(make(dialect)).not.toThrow();
  });

  it('is refused by SqlFence, too', () => {
    const make = () => new fencing.SqlFence({ dialect: 'oracle' } as never);
    expect(make).toThrow(/The fence speaks postgresql, mysql, sqlite, not 'oracle'/);
  });
});

describe('a fence with an option that there is not', () => {
  it('is refused in Redis, where there is no table', () => {
    const make = () => factories['redisFence']!(client, { table: 'x' });
    expect(refusalOf(make).message).toMatch(
      /'table' can't be given: .* takes onStale, onEvent, maxAge, key/,
    );
  });

  it.each([[null], [['redlock_fence']], [1]])('a table is a string, not %j', (table) => {
    expect(refusalOf(() => factories['mysqlFence']!(client, { table })).option).toBe('table');
  });

  it('refuses one that it does not know, and what is no object', async () => {
    const pool = new Pool();
    expect(refusalOf(() => factories['postgresFence']!(pool, { tabel: 'x' })).message).toMatch(
      /'tabel' can't be given: it is unknown/,
    );
    expect(refusalOf(() => factories['postgresFence']!(pool, 'x')).message).toMatch(
      /give an object/,
    );
    await pool.end();
    const database = new PGlite();
    expect(refusalOf(() => factories['pgliteFence']!(database, { prepared: true })).option).toBe(
      'prepared',
    );
    await database.close();
  });
});

describe('a call of a fence with wrong options', () => {
  const database = new Database(':memory:');
  const fence = fencing.sqliteFence(database);
  database.exec(fence.ddl());
  const token = { value: 1, keys: ['account'], holder: 'me' };

  // An option that is ignored would promise what does not hold; a level stands in SQL, where it could be any statement.
  it.each<unknown>([
    { isolationLevel: 'serializable; drop table account; --' },
    { isolationLevel: 'SERIALIZABLE' },
    { isolationLevel: ['serializable'] },
    { isolation: 'serializable' },
    { attempts: null },
    { lockTimeout: '1; drop table account; --' },
    { lockTimeout: '1s' },
    { keys: 'account' },
    null,
    'serializable',
  ])('is refused, and writes nothing: %j', async (options) => {
    const code = expect.stringMatching(/^(REDLOCK_CONFIG|FENCED_USAGE)$/);
    const call = fence.transaction(token, () => 'ran', options as never);
    await expect(call).rejects.toMatchObject({ code });
    expect(database.prepare('SELECT * FROM redlock_fence').all()).toEqual([]);
  });

  it.each([{ key: ['account'] }, null, 'x'])(
    'is refused where it takes keys: %j',
    async (options) => {
      const refusal = { code: 'REDLOCK_CONFIG' };
      await expect(fence.claim(token, options as never)).rejects.toMatchObject(refusal);
      expect(() => fence.advance(database, token, options as never)).toThrow(
        expect.objectContaining(refusal),
      );
    },
  );
});
