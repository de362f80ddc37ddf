import { describe, expect, it } from '@jest/globals';
import { PGlite } from '@electric-sql/pglite';
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

// Options that are ignored would promise what does not hold; a level stands in SQL, where it could be any statement.

const LEVELS = "give 'read committed', 'repeatable read' or 'serializable'";
const WRONG: readonly (readonly [options: unknown, message: string])[] = [
  [{ isolationLevel: 'serializable; drop table account; --' }, LEVELS],
  [{ isolationLevel: 'SERIALIZABLE' }, `(did you mean 'serializable'?): ${LEVELS}`],
  [{ isolationLevel: 'repeatable-read' }, "did you mean 'repeatable read'?"],
  [{ isolationLevel: '' }, LEVELS],
  [{ isolationLevel: null }, LEVELS],
  [{ isolationLevel: ['serializable'] }, LEVELS],
  [{ isolationLevel: 'read uncommitted' }, LEVELS],
  [
    { isolation: 'serializable' },
    "'isolation' can't be given: it is unknown (did you mean 'isolationLevel'?); fence.transaction takes keys, isolationLevel",
  ],
  [{ locktimeout: '2s' }, "did you mean 'lockTimeout'?"],
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

const token = { value: 1, keys: ['account'], holder: 'me' };
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

function itRefuses(
  name: string,
  open: () => OpenClient | Promise<OpenClient>,
  clear: () => unknown,
): void {
  it(`${name}: refuses options that there are not, and values that they don't take`, async () => {
    await clear();
    const client = await open();
    try {
      await refusesAll(client.fence);
      await client.run(async (transaction) => {
        const call = client.fence.advance(transaction, token, { key: ['account'] } as never);
        expect((await refusalOf(call)).message).toMatch(
          /did you mean 'keys'\?.*fence\.advance takes keys/,
        );
      });
    } finally {
      await client.close();
    }
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);
  const clear = () => database.pool.query("DELETE FROM redlock_fence WHERE resource <> ''");

  itRefuses('pg', () => pgClient(database.url), clear);
  itRefuses('TypeORM', () => typeormClient({ type: 'postgres', url: database.url }), clear);
  itRefuses('Knex', () => knexClient({ client: 'pg', connection: database.url }), clear);
  itRefuses('Kysely', () => kyselyClient(database.url, 'postgresql'), clear);
  itRefuses('Drizzle', () => drizzleClient(database.url, 'postgresql'), clear);
  itRefuses(
    'Prisma',
    async () => {
      const { prisma, fence, close } = await openPrismaClient(prismaPg(database.url));
      return { fence, outside: [], run: (work) => prisma.$transaction(work), close };
    },
    clear,
  );
});

describe('on MariaDB', () => {
  const database = useMariadb(createMariadbAccounts);
  const clear = () => database.pool.query("DELETE FROM redlock_fence WHERE resource <> ''");

  itRefuses('mysql2', () => mysql2Client(database.url), clear);
  itRefuses('Knex', () => knexClient({ client: 'mysql2', connection: database.url }), clear);
});

it('PGlite refuses them, also those of a statement', async () => {
  const database = new PGlite();
  const fence = pgliteFence(database);
  await database.exec(fence.ddl());
  await refusesAll(fence);
  const call = fence.statement(token, 'SELECT 1', [], { kyes: [] } as never);
  expect((await refusalOf(call)).message).toMatch(
    /did you mean 'keys'\?.*fence\.statement takes keys/,
  );
  await expect(fence.statement(token, 'SELECT 1', [], null as never)).rejects.toMatchObject({
    code: 'REDLOCK_CONFIG',
  });
  await database.close();
});

it('SQLite refuses them', async () => {
  const database = new Database(':memory:');
  const fence = sqliteFence(database);
  database.exec(fence.ddl());
  await refusesAll(fence);
  expect(() => fence.advanceSync(database, token, { key: [] } as never)).toThrow(
    /did you mean 'keys'\?.*fence\.advanceSync takes keys/,
  );
  await expect(fence.transaction(token, () => 0, { lockTimeout: '1s' })).rejects.toThrow(
    /SQLite has one isolation level/,
  );
  database.close();
});
