import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { Redis } from 'ioredis';
import { pgliteFence, redisFence, sqliteFence, type Fence } from '../../lib/fencing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

const token = { value: 1, keys: ['account'], holder: 'me' };
const usage = (message: RegExp) => ({
  code: 'FENCED_USAGE',
  keys: ['account'],
  message: expect.stringMatching(message),
});

// Options that are ignored would promise what does not hold; a level stands in SQL, where it could be any statement.

const WRONG: readonly unknown[] = [
  { isolationLevel: 'serializable; drop table account; --' },
  { isolationLevel: 'SERIALIZABLE' },
  { isolationLevel: ['serializable'] },
  { isolationLevel: null },
  { isolation: 'serializable' },
  { attempts: null },
  { lockTimeout: '1; drop table account; --' },
  { keys: 'account' },
  { keys: null },
  null,
  ['account'],
  'serializable',
];

/** Of the code and message with which it rejects. */
async function refusalOf(call: Promise<unknown>): Promise<Error & { code: string }> {
  const error = await call.then(
    () => new Error('it was accepted'),
    (reason: unknown) => reason,
  );
  return error as Error & { code: string };
}

const REFUSED = /^(REDLOCK_CONFIG|FENCED_USAGE)$/;

async function refusesAll(fence: Fence): Promise<void> {
  let runs = 0;
  for (const options of WRONG) {
    const call = fence.transaction(token, () => (runs += 1), options as never);
    const error = await refusalOf(call);
    expect(error.code).toMatch(REFUSED);
  }
  for (const options of [{ key: ['account'] }, { isolationLevel: 'serializable' }, null, 'x']) {
    const error = await refusalOf(fence.claim(token, options as never));
    expect(error.code).toBe('REDLOCK_CONFIG');
  }
  expect(runs).toBe(0);
  // Nothing was written: an older holder is the first one.
  const older = { ...token, value: 1, holder: 'older' };
  await expect(
    fence.transaction(older, () => 'admitted', { attempts: 1, isolationLevel: undefined }),
  ).resolves.toBe('admitted');
}

const OUTSIDE = [undefined, null, 'tx', {}, () => undefined];

async function refusesOutside(fence: Fence): Promise<void> {
  for (const given of OUTSIDE) {
    // That of SQLite throws at once.
    const error = await refusalOf((async () => fence.advance(given, token))());
    expect(error).toMatchObject({ code: 'FENCED_USAGE', keys: ['account'] });
  }
}

describe('over SQLite,', () => {
  const database = new Database(':memory:');
  const fence = sqliteFence(database);
  beforeAll(() => void database.exec(fence.ddl()));
  afterAll(() => void database.close());

  it('advance and advanceSync with what is no transaction are refused', async () => {
    await refusesOutside(fence);
    expect(() => fence.advanceSync(undefined as never, token)).toThrow(/advanceSync needs/);
    expect(() => fence.advanceSync({} as never, token)).toThrow(/outside a transaction/);
  });

  it('unknown options and wrong values are refused', async () => {
    await refusesAll(fence);
    expect(() => fence.advanceSync(database, token, { key: [] } as never)).toThrow(
      /it is unknown; fence\.advanceSync takes keys/,
    );
    await expect(fence.transaction(token, () => 0, { lockTimeout: '1s' })).rejects.toThrow(
      /SQLite has one isolation level/,
    );
  });
});

describe('over PGlite,', () => {
  const database = new PGlite();
  const fence = pgliteFence(database);
  beforeAll(() => database.exec(fence.ddl()));
  beforeEach(() => database.query('DELETE FROM redlock_fence'));
  afterAll(() => database.close());

  it('advance with what is no transaction is refused', async () => {
    await expect(refusesOutside(fence)).resolves.toBeUndefined();
  });

  it('unknown options and wrong values are refused', () =>
    expect(refusesAll(fence)).resolves.toBeUndefined());
});

describe('redisFence', () => {
  let redis: Redis;
  useRedisServers(1, {}, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });

  const COMMANDS = /write takes a list of commands/;
  it.each<[string, unknown, RegExp]>([
    ['nothing', undefined, COMMANDS],
    ['null', null, COMMANDS],
    ['a string', 'SET a b', COMMANDS],
    ['one command', ['SET', 'a', 'secret'], /command 1 is a string/],
    ['a command without a key', [['FLUSHALL']], /FLUSHALL.* key .*undefined/],
    ['a command without a name', [[undefined, 'a']], /name in command 1 .*undefined/],
    ['undefined in one', [['SET', 'a', undefined]], /SET.* argument 1 .*undefined/],
    ['null in one', [['HSET', 'a', 'b', null]], /HSET.* argument 2 .*null/],
    ['an object in one', [['SET', 'a', { b: 1 }]], /SET.* argument 1 .*an object/],
    ['an array in one', [['RPUSH', 'a', ['b', 'c']]], /RPUSH.* argument 1 .*an array/],
    ['a boolean in one', [['SET', 'a', true]], /SET.* argument 1 .*a boolean/],
    ['a date in one', [['SET', 'a', new Date()]], /SET.* argument 1 .*an object/],
    ['no number in one', [['SET', 'a', Number.NaN]], /SET.* argument 1 .*NaN/],
    ['a bigint in one', [['SET', 'a', 1n]], /SET.* argument 1 .*a bigint/],
    ['an object as a key', [['SET', {}, 'b']], /SET.* key .*an object/],
    [
      'a wrong one behind a right one',
      [
        ['SET', 'a', 'b'],
        ['SET', 'a'],
      ].concat([[]]),
      /command 3/,
    ],
  ])('refuses %s for the commands, and writes nothing', async (_name, commands, message) => {
    const call = redisFence(redis).write(token, commands as never);
    await expect(call).rejects.toMatchObject(usage(message));
    await expect(call).rejects.toThrow(/Nothing was written\.$/);
    await expect(call).rejects.not.toThrow(/secret/);
    await expect(redis.keys('*')).resolves.toEqual([]);
  });

  it.each([undefined, null, 7, {}])('has no fence for %j instead of a key', (key) => {
    expect(() => redisFence(redis).fenceName(key as never)).toThrow(
      /key must be a .*string.*, not/,
    );
  });

  it('refuses options that there are not', async () => {
    const fence = redisFence(redis);
    for (const options of [{ key: ['a'] }, null, 'x']) {
      const config = { code: 'REDLOCK_CONFIG' };
      await expect(fence.write(token, [], options as never)).rejects.toMatchObject(config);
      await expect(fence.claim(token, options as never)).rejects.toMatchObject(config);
    }
    await expect(redis.keys('*')).resolves.toEqual([]);
  });

  it('stores strings, numbers and bytes as they are', async () => {
    const bytes = Uint8Array.of(0, 255, 44);
    await redisFence(redis).write(token, [
      ['RPUSH', 'list', '', 'é', 1.5, Buffer.from(bytes), bytes.subarray(1)],
    ]);
    const stored = await redis.lrangeBuffer('list', 0, -1);
    expect(stored.map((each) => each.toString('hex'))).toEqual([
      '',
      'c3a9',
      '312e35',
      '00ff2c',
      'ff2c',
    ]);
    await redis.flushall();
  });
});
