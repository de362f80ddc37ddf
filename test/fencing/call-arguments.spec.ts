import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { pgliteFence, sqliteFence, type Fence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
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

// Options that are ignored would promise what does not hold; a level stands in SQL, where it could be any statement.

const LEVELS = "give 'read committed', 'repeatable read' or 'serializable'";
const WRONG: readonly (readonly [options: unknown, message: string])[] = [
  [{ isolationLevel: 'serializable; drop table account; --' }, LEVELS],
  [{ isolationLevel: 'SERIALIZABLE' }, LEVELS],
  [{ isolationLevel: 'repeatable-read' }, LEVELS],
  [{ isolationLevel: '' }, LEVELS],
  [{ isolationLevel: null }, LEVELS],
  [{ isolationLevel: ['serializable'] }, LEVELS],
  [{ isolationLevel: 'read uncommitted' }, LEVELS],
  [
    { isolation: 'serializable' },
    "'isolation' can't be given: it is unknown; fence.transaction takes keys, isolationLevel",
  ],
  [{ locktimeout: '2s' }, 'it is unknown; '],
  [{ retries: 2 }, 'it is unknown'],
  [{ attempts: null }, "'attempts' can't be null"],
  [{ lockTimeout: null }, "'lockTimeout' can't be null"],
  [{ lockTimeout: '1; drop table account; --' }, "'lockTimeout' can't be"],
  [{ keys: 'account' }, 'must be an array'],
  [{ keys: null }, 'must be an array'],
  [null, "'options' can't be null: give an object: fence.transaction takes keys"],
  [['account'], "'options' can't be an array: give an object"],
  ['serializable', "'options' can't be a string: give an object"],
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
  for (const [options, message] of WRONG) {
    const call = fence.transaction(token, () => (runs += 1), options as never);
    const error = await refusalOf(call);
    expect(error.message).toContain(message);
    expect(error.code).toMatch(REFUSED);
  }
  for (const options of [{ key: ['account'] }, { isolationLevel: 'serializable' }, null, 'x']) {
    const error = await refusalOf(fence.claim(token, options as never));
    expect(error.message).toContain('fence.claim takes keys');
    expect(error.code).toBe('REDLOCK_CONFIG');
  }
  expect(runs).toBe(0);
  // Nothing was written: an older holder is the first one.
  const older = { ...token, value: 1, holder: 'older' };
  await expect(
    fence.transaction(older, () => 'admitted', { attempts: 1, isolationLevel: undefined }),
  ).resolves.toBe('admitted');
}

const needsTransaction = (kind: string) =>
  usage(new RegExp(`^advance needs .*: advance\\(tx, token\\).*, not ${kind}\\. Nothing was wr`));
const OUTSIDE: readonly (readonly [given: unknown, refusal: object])[] = [
  [undefined, needsTransaction('undefined')],
  [null, needsTransaction('null')],
  ['tx', needsTransaction('a string')],
  [{}, usage(/outside a transaction/)],
  [() => undefined, usage(/outside a transaction/)],
];
const REFUSALS_OUTSIDE = OUTSIDE.map(([, refusal]) => refusal);

const refusalsOutside = (fence: Fence) =>
  // That of SQLite throws at once.
  Promise.all(OUTSIDE.map(([given]) => refusalOf((async () => fence.advance(given, token))())));

describe('over the client of a server,', () => {
  const postgres = usePostgres(createPostgresAccounts);
  const mariadb = useMariadb(createMariadbAccounts);
  const openers: Readonly<Record<string, () => OpenClient | Promise<OpenClient>>> = {
    pg: () => pgClient(postgres.url),
    'TypeORM on PostgreSQL': () => typeormClient({ type: 'postgres', url: postgres.url }),
    'Knex on PostgreSQL': () => knexClient({ client: 'pg', connection: postgres.url }),
    Kysely: () => kyselyClient(postgres.url, 'postgresql'),
    Drizzle: () => drizzleClient(postgres.url, 'postgresql'),
    Prisma: async () => {
      const { prisma, fence, close } = await openPrismaClient(prismaPg(postgres.url));
      return { fence, outside: [], run: (work) => prisma.$transaction(work), close };
    },
    mysql2: () => mysql2Client(mariadb.url),
    'Knex on MariaDB': () => knexClient({ client: 'mysql2', connection: mariadb.url }),
  };
  const names = Object.keys(openers);
  const clear = ({ pool }: { pool: { query(sql: string): unknown } }) =>
    pool.query("DELETE FROM redlock_fence WHERE resource <> ''");

  it.each(names)('%s: advance with what is no transaction is refused', async (name) => {
    const client = await openers[name]!();
    try {
      expect(await refusalsOutside(client.fence)).toMatchObject(REFUSALS_OUTSIDE);
    } finally {
      await client.close();
    }
  });

  it.each(names)('%s: unknown options and wrong values are refused', async (name) => {
    await Promise.all([clear(postgres), clear(mariadb)]);
    const client = await openers[name]!();
    try {
      await refusesAll(client.fence);
      await client.run(async (transaction) => {
        const call = client.fence.advance(transaction, token, { key: ['account'] } as never);
        expect((await refusalOf(call)).message).toMatch(/it is unknown; fence\.advance takes keys/);
      });
    } finally {
      await client.close();
    }
  });
});

describe('over SQLite,', () => {
  const database = new Database(':memory:');
  const fence = sqliteFence(database);
  beforeAll(() => void database.exec(fence.ddl()));
  afterAll(() => void database.close());

  it('advance and advanceSync with what is no transaction are refused', async () => {
    expect(await refusalsOutside(fence)).toMatchObject(REFUSALS_OUTSIDE);
    expect(() => fence.advanceSync(undefined as never, token)).toThrow(
      /advanceSync needs .*undefined/,
    );
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
    expect(await refusalsOutside(fence)).toMatchObject(REFUSALS_OUTSIDE);
  });

  it('unknown options and wrong values are refused', () =>
    expect(refusesAll(fence)).resolves.toBeUndefined());
});
