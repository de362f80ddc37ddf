import { describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { createMariadbAccounts, createPostgresAccounts } from './support/account-stores.ts';
import { nodeSqlite } from './support/node-sqlite.ts';
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

// Outside a transaction the lock on the row of the fence ends with the statement: the write that follows is not fenced.

let count = 0;

function itRefuses(name: string, open: () => OpenClient | Promise<OpenClient>): void {
  it(`${name}: advance works in a transaction of the user and is refused outside and when it is over`, async () => {
    const client = await open();
    const key = `outside:${(count += 1)}`;
    const token = new FencingToken(1, [key], 'a');
    // That of SQLite throws at once.
    const advance = async (transaction: unknown) => client.fence.advance(transaction, token);
    try {
      let finished: unknown;
      await client.run((transaction) => {
        finished = transaction;
        return advance(transaction);
      });
      await expect(advance(finished)).rejects.toBeDefined();
      for (const outside of client.outside) {
        await expect(advance(outside)).rejects.toMatchObject({
          code: 'FENCED_USAGE',
          message: expect.stringContaining('outside a transaction'),
        });
      }
    } finally {
      await client.close();
    }
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itRefuses('pg', () => pgClient(database.url));
  itRefuses('pg before getTransactionStatus', async () => {
    const client = await pgClient(database.url);
    const older = (pgClient: any) =>
      pgClient.getTransactionStatus
        ? new Proxy(pgClient, {
            get: (target, name) =>
              name === 'getTransactionStatus' ? undefined : target[name].bind(target),
          })
        : pgClient;
    return {
      ...client,
      outside: client.outside.map(older),
      run: (work) => client.run((transaction) => work(older(transaction))),
    };
  });
  itRefuses('TypeORM', () => typeormClient({ type: 'postgres', url: database.url }));
  itRefuses('Knex', () => knexClient({ client: 'pg', connection: database.url }));
  itRefuses('Kysely', () => kyselyClient(database.url, 'postgresql'));
  itRefuses('Drizzle', () => drizzleClient(database.url, 'postgresql'));
  itRefuses('Prisma', async () => {
    const { prisma, fence, close } = await openPrismaClient(prismaPg(database.url));
    return { fence, outside: [prisma], run: (work) => prisma.$transaction(work), close };
  });
});

describe('on MariaDB', () => {
  const database = useMariadb(createMariadbAccounts);

  itRefuses('mysql2', () => mysql2Client(database.url));
  itRefuses('TypeORM', () => typeormClient({ type: 'mariadb', url: database.url }));
  itRefuses('Knex', () => knexClient({ client: 'mysql2', connection: database.url }));
  itRefuses('Kysely', () => kyselyClient(database.url, 'mysql'));
  itRefuses('Drizzle', () => drizzleClient(database.url, 'mysql'));
});

describe('on SQLite', () => {
  const ddl = sqliteFence(new Database(':memory:')).ddl();

  itRefuses('TypeORM', async () => {
    const source = { type: 'better-sqlite3', database: ':memory:' } as const;
    const client = await typeormClient(source);
    await (client.outside[0] as { query(sql: string): Promise<unknown> }).query(ddl);
    return client;
  });
  itRefuses('Knex', async () => {
    const connection = { filename: ':memory:' };
    const client = knexClient({ client: 'better-sqlite3', connection, useNullAsDefault: true });
    await (client.outside[0] as { raw(sql: string): Promise<unknown> }).raw(ddl);
    return client;
  });

  describe.each(['better-sqlite3', 'node:sqlite, where Node.js has it,'])('with %s', (driver) => {
    const Driver = (driver === 'better-sqlite3' ? undefined : nodeSqlite()) ?? Database;

    itRefuses('a connection', () => {
      const database = new Driver(':memory:');
      database.exec(ddl);
      return {
        fence: sqliteFence(database),
        outside: [database],
        run: async (work) => {
          database.exec('BEGIN IMMEDIATE');
          await work(database);
          database.exec('COMMIT');
        },
        close: () => database.close(),
      };
    });
  });
});
