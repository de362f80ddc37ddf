import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import { Redis } from 'ioredis';
import mysql from 'mysql2';
import { Client } from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { fenceClaims } from '../../lib/fencing/fence-claim.ts';
import { parseFencingTokenHeader } from '../../lib/fencing/fencing-token-header.ts';
import * as fencing from '../../lib/fencing/index.ts';

// Arguments that would otherwise fail in the first transaction, be ignored, or print a password.

const factories = fencing as unknown as Readonly<
  Record<string, (client: unknown, options?: unknown) => any>
>;
const NAMES = Object.keys(fencing).filter((name) => /^[a-z]\w+(Fence|TokenSource)$/.test(name));
const SECRET = 'postgres://a:hunter2@b/c';

function refusalOf(run: () => unknown): Error & { code: string; option?: string } {
  const refusal = ((): unknown => {
    try {
      return run();
    } catch (error) {
      return error;
    }
  })();
  expect(refusal).toBeInstanceOf(Error);
  expect(inspect(refusal)).not.toContain('hunter2');
  return refusal as Error & { code: string };
}

/** Enough for a factory, which does not connect. */
const methods =
  'connect query getConnection prepare exec transaction execute raw eval fork $transaction transactWrite';
const client = {
  ...Object.fromEntries(methods.split(' ').map((name) => [name, () => undefined])),
  client: { config: { client: 'pg' } },
  options: { type: 'postgres' },
  getDriver: () => new (class PostgreSqlDriver {})(),
};
const REQUIRED: Readonly<Record<string, object>> = { drizzleFence: { sql: { raw() {} } } };

it.each(NAMES)('%s refuses anything but its client, and an unknown option', (name) => {
  for (const wrong of [undefined, null, SECRET, new URL(SECRET), {}]) {
    const error = refusalOf(() => factories[name]!(wrong, REQUIRED[name]));
    expect(error).toMatchObject({ code: 'REDLOCK_CONFIG', option: name });
    expect(error.message).toMatch(/: it needs .{10,}/);
  }
  for (const options of [{ ...REQUIRED[name], tabel: 'x' }, null, 'x'])
    expect(refusalOf(() => factories[name]!(client, options)).code).toBe('REDLOCK_CONFIG');
});

it.each([
  ['postgresFence', new Client(SECRET)],
  ['postgresTokenSource', new Client(SECRET)],
  ['mysqlFence', mysql.createPool({ password: 'hunter2' })],
  ['redisFence', new Redis({ lazyConnect: true, keyPrefix: 'app:' })],
])('%s refuses a client that looks alike', (name, alike) => {
  expect(refusalOf(() => factories[name]!(alike)).option).toBe(name);
});

it.each<[string, string, readonly unknown[]]>([
  ...NAMES.filter((name) => name !== 'postgresTokenSource').flatMap(
    (name): [string, string, readonly unknown[]][] => [
      [name, 'onStale', ['refund', Promise.resolve()]],
      [name, 'onEvent', [null]],
      [name, 'maxAge', ['59m', '30', null, Number.NaN, 1e300, -1]],
    ],
  ),
  ...['drizzleFence', 'kyselyFence', 'prismaFence'].map(
    (name): [string, string, readonly unknown[]] => [
      name,
      'dialect',
      ['mariadb', 'constructor', null, 1],
    ],
  ),
  ['redisFence', 'keyPrefix', [5, 'a{b']],
  ['postgresFence', 'prepared', ['yes']],
  ['postgresTokenSource', 'table', [null]],
  ['mysqlFence', 'table', [null, ['x'], '', 'a b', 'a;b', '"a"', 'a.b.c', '1a', 'a-b']],
])('%s refuses wrong values of %s: %j', (name, option, values) => {
  const make = (value: unknown) => () =>
    factories[name]!(client, { ...REQUIRED[name], [option]: value });
  for (const value of values) expect(refusalOf(make(value)).option).toBe(option);
  expect(make(undefined)).not.toThrow();
});

describe('a call with wrong options', () => {
  const database = new Database(':memory:');
  const fence = fencing.sqliteFence(database);
  database.exec(fence.ddl());
  const token = { value: 1, keys: ['account'], holder: 'me' };

  // An option that is ignored would promise what does not hold; a level stands in SQL, where it could be any statement.
  it.each<unknown>([
    { isolationLevel: 'serializable; drop table account; --' },
    { isolationLevel: ['serializable'] },
    { isolationLevel: 'serializable' },
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

  it.each([{ key: ['account'] }, null, 'x'])('is refused where it takes keys: %j', async (keys) => {
    const refusal = { code: 'REDLOCK_CONFIG' };
    await expect(fence.claim(token, keys as never)).rejects.toMatchObject(refusal);
    const advance = () => fence.advance(database, token, keys as never);
    expect(advance).toThrow(expect.objectContaining(refusal));
  });
});

describe('the claims of a token', () => {
  const claimsOf = (token: unknown, keys?: unknown) => fenceClaims(token as never, keys as never);
  const numbered = (count: number) => Array.from({ length: count }, (_none, at) => `k${at}`);
  const GOOD = { value: 1, keys: ['a'], holder: 'h' };

  it('are its keys in the order of their bytes, without duplicates', () => {
    const token = new FencingToken(7, ['b', 'a', 'é', 'b', 'Z'], 'ana');
    expect(claimsOf(token).map(({ key }) => key)).toEqual(['Z', 'a', 'b', 'é']);
    expect(claimsOf(token, ['b'])).toEqual([{ key: 'b', token: '7', holder: 'ana' }]);
    expect(claimsOf({ ...GOOD, keys: [] }, ['x'])).toMatchObject([{ key: 'x' }]);
    expect(claimsOf({ ...GOOD, keys: numbered(1_000) })).toHaveLength(1_000);
  });

  it.each([1, 2 ** 53 - 1, 2n ** 53n + 1n, '9223372036854775807'])(
    'have the exact value %p',
    (value) => {
      expect(claimsOf({ ...GOOD, value })[0]?.token).toBe(String(value));
    },
  );

  const values = [0, -1, 1.5, 2 ** 53, '01', '1e3', '', ' 1', '9223372036854775808', 0n, [5], null];
  const keys = ['', 'a\0b', 'x'.repeat(2_501), '\uD800', 5, null, {}];
  const lists = ['seat', new Set(['seat']), { 0: 'seat', length: 1 }, 5, numbered(1_001)];
  const tokens = [
    undefined,
    null,
    34,
    '34',
    {},
    ...[...values, { toString: () => '5' }, Object.create(null), undefined].map((value) => ({
      ...GOOD,
      value,
    })),
    ...['', undefined, 'x'.repeat(256), 'line\nbreak', 'é'].map((holder) => ({ ...GOOD, holder })),
    ...keys.map((key) => ({ ...GOOD, keys: ['good', key] })),
    ...lists.map((list) => ({ ...GOOD, keys: list })),
    { ...GOOD, keys: [] },
  ];
  it.each<[unknown, unknown]>([
    ...tokens.map((token): [unknown, unknown] => [token, undefined]),
    ...lists.map((list): [unknown, unknown] => [{ ...GOOD, keys: [] }, list]),
    [GOOD, ['of another lock']],
  ])('are refused of %p with the keys %p', (token, some) => {
    const error = refusalOf(() => claimsOf(token, some));
    expect(error.code).toBe('FENCED_USAGE');
    expect(error.message).toMatch(/Nothing was written/);
  });

  it.each([{ token: GOOD }, { keys: ['a'], token: GOOD, isHeld: true }])(
    'are refused of a lock in place of its token, with that sentence: %j',
    (lock) => {
      const error = refusalOf(() => claimsOf(lock));
      expect(error.code).toBe('FENCED_USAGE');
      expect(error.message).toMatch(/you passed the lock: pass lock\.token/);
    },
  );

  it('of a header are not read for keys that are none', () => {
    for (const list of lists)
      expect(refusalOf(() => parseFencingTokenHeader('1;h', list as never)).code).toBe(
        'FENCED_USAGE',
      );
    expect(parseFencingTokenHeader('1;h', Object.assign([], { 1: 'a' }))).toBeUndefined();
  });
});
