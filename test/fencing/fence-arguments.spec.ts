import { inspect } from 'node:util';
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

  it.each([
    ['postgresFence', new Client('postgres://a:hunter2@b/c')],
    ['mysqlFence', mysql.createPool({})],
  ])('%s refuses a client that looks alike', (name, client) => {
    expect(refusalOf(() => factories[name]!(client)).option).toBe(name);
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
    for (const options of [{ tabel: 'x' }, { onStale() {} }, null, { table: null }])
      expect(refusalOf(() => make(pool, options)).code).toBe('REDLOCK_CONFIG');
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
  it.each(NAMES)('%s refuses it at once', (name) => {
    const make = (listeners: object) =>
      factories[name]!(client, { ...REQUIRED[name], ...listeners });
    expect(refusalOf(() => make({ onStale: 'refund' })).option).toBe('onStale');
    expect(refusalOf(() => make({ onStale: Promise.resolve() })).option).toBe('onStale');
    expect(refusalOf(() => make({ onEvent: null })).option).toBe('onEvent');
    const fence = make({ onStale: undefined, onEvent: () => undefined }) as fencing.Fence;
    expect(() => fence.observe('log' as never)).toThrow(RedlockConfigError);
  });
});

describe('a fence with a dialect that it does not speak', () => {
  it.each(['drizzleFence', 'kyselyFence', 'prismaFence'])('%s refuses it at once', (name) => {
    const make = (dialect: unknown) => () =>
      factories[name]!(client, { ...REQUIRED[name], dialect });
    for (const dialect of ['mariadb', 'constructor', null, 1])
      expect(refusalOf(make(dialect)).option).toBe('dialect');
    for (const dialect of [undefined, 'postgresql', 'mysql']) expect(make(dialect)).not.toThrow();
  });
});

describe('a fence with an option that there is not', () => {
  it.each<[string, unknown]>([
    ['redisFence', { table: 'x' }],
    ['mysqlFence', { table: null }],
    ['mysqlFence', { table: ['redlock_fence'] }],
    ['postgresFence', { tabel: 'x' }],
    ['postgresFence', 'x'],
    ['pgliteFence', { prepared: true }],
  ])('%s refuses %j', (name, options) => {
    expect(refusalOf(() => factories[name]!(client, options)).code).toBe('REDLOCK_CONFIG');
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
