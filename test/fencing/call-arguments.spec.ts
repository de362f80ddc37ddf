import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { Redis } from 'ioredis';
import { pgliteFence, redisFence, sqliteFence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { createMariadbAccounts, createPostgresAccounts } from './support/account-stores.ts';
import {
  drizzleClient,
  knexClient,
  kyselyClient,
  mysql2Client,
  pgClient,
  typeormClient,
  type OpenClient,
} from './support/open-clients.ts';
import { openPrismaClient, prismaPg } from './support/prisma-accounts.ts';

const token = { value: 1, keys: ['account'], holder: 'me' };
const usage = (message: RegExp) => ({
  code: 'FENCED_USAGE',
  keys: ['account'],
  message: expect.stringMatching(message),
});

describe('advance with what is no transaction', () => {
  const postgres = usePostgres(createPostgresAccounts);
  const mariadb = useMariadb(createMariadbAccounts);
  const openers: Readonly<Record<string, () => Promise<Pick<OpenClient, 'fence' | 'close'>>>> = {
    pg: () => pgClient(postgres.url),
    TypeORM: () => typeormClient({ type: 'postgres', url: postgres.url }),
    Knex: async () => knexClient({ client: 'pg', connection: postgres.url }),
    Kysely: async () => kyselyClient(postgres.url, 'postgresql'),
    Drizzle: async () => drizzleClient(postgres.url, 'postgresql'),
    Prisma: () => openPrismaClient(prismaPg(postgres.url)),
    mysql2: () => mysql2Client(mariadb.url),
    PGlite: async () => {
      const database = new PGlite();
      return { fence: pgliteFence(database), close: () => database.close() };
    },
    SQLite: async () => {
      const database = new Database(':memory:');
      return { fence: sqliteFence(database), close: () => database.close() };
    },
  };

  it.each(Object.keys(openers))('is refused over %s', async (name) => {
    const { fence, close } = await openers[name]!();
    try {
      for (const [given, kind] of [
        [undefined, 'undefined'],
        [null, 'null'],
        ['tx', 'a string'],
      ] as const)
        await expect(fence.advance(given, token)).rejects.toMatchObject(
          usage(
            new RegExp(
              `^advance needs .*: advance\\(tx, token\\).*, not ${kind}\\. Nothing was wr`,
            ),
          ),
        );
      for (const given of [{}, () => undefined])
        await expect(fence.advance(given, token)).rejects.toMatchObject(
          usage(/outside a transaction/),
        );
    } finally {
      await close();
    }
  });

  it('is refused by advanceSync', () => {
    const database = new Database(':memory:');
    const fence = sqliteFence(database);
    expect(() => fence.advanceSync(undefined as never, token)).toThrow(
      /advanceSync needs .*undefined/,
    );
    expect(() => fence.advanceSync({} as never, token)).toThrow(/outside a transaction/);
    database.close();
  });
});

describe('fence.statement', () => {
  const database = new PGlite();
  const fence = pgliteFence(database);
  beforeAll(() => database.exec(fence.ddl()));
  afterAll(() => database.close());

  it.each<[string, readonly unknown[], RegExp]>([
    ['no statement', [], /needs the statement as text.*not undefined/],
    ['null', [null], /needs the statement as text.*not null/],
    ['a query of pg', [{ text: 'SELECT 1' }], /needs the statement as text.*not an object/],
    ['a text for its parameters', ['SELECT $1', 'ana'], /parameters .*in an array.*not a string/],
    ['null for them', ['SELECT 1', null], /parameters .*in an array.*not null/],
    ['options for them', ['SELECT 1', { keys: [] }], /parameters .*in an array.*not an object/],
  ])('with %s is refused, and nothing is written', async (_name, given, message) => {
    const call = (fence.statement as (...all: unknown[]) => Promise<unknown>).call(
      fence,
      token,
      ...given,
    );
    await expect(call).rejects.toMatchObject(usage(message));
    const { rows } = await database.query("SELECT * FROM redlock_fence WHERE resource = 'account'");
    expect(rows).toEqual([]);
  });
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

  it.each([undefined, null, 'x', { olderThen: '30d' }])(
    'prunes nothing for %j',
    async (options) => {
      const message = expect.stringMatching(/fence\.prune takes olderThan|'olderThan' can't be/);
      const call = redisFence(redis).prune(options as never);
      await expect(call).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', message });
    },
  );

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
