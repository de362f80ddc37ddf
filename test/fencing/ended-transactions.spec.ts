import { afterAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { sql } from 'drizzle-orm';
import { sql as kyselySql } from 'kysely';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  pgliteFence,
  postgresFence,
  sqliteFence,
  type Fence,
  type PostgresPool,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { nodeSqlite } from './support/node-sqlite.ts';
import { drizzleClient, knexClient, kyselyClient, typeormClient } from './support/open-clients.ts';
import { openPrismaClient, prismaPg } from './support/prisma-accounts.ts';

// A transaction that ends inside the work has freed the row of the fence: what follows is not fenced.

/** A fence, how its work runs a statement, and how to close it. Opening some takes seconds: the tests of a name share one. */
interface Client {
  readonly fence: Fence;
  readonly run: (transaction: any, sql: string) => unknown;
  readonly close: () => unknown;
}

const SEAT = 'CREATE TABLE seat (id text PRIMARY KEY, n integer)';
const WRITE = 'UPDATE seat SET n = 1';

let count = 0;
const opened: Promise<Client>[] = [];

async function closeAll(): Promise<void> {
  for (const client of opened.splice(0)) await (await client).close();
}

function itNotices(name: string, endings: readonly string[][], open: () => Promise<Client>): void {
  let client: Promise<Client> | undefined;
  const shared = (): Promise<Client> => (opened.push((client = open())), client);
  it.each(endings.map((statements) => [statements.join('; '), statements] as const))(
    `${name} does not report success when the work runs %s`,
    async (_text, statements) => {
      const { fence, run } = await (client ?? shared());
      const token = new FencingToken(1, [`ended:${(count += 1)}`], 'h');
      const ended = fence.transaction(token, async (tx) => {
        for (const statement of statements)
          await Promise.resolve(run(tx, statement)).catch(() => undefined);
      });
      // Knex says instead that it can't roll back what SQLite has rolled back.
      const code = expect.stringMatching(
        name === 'Knex on SQLite' ? /SQLITE_ERROR|FENCED/ : /FENCED/,
      );
      await expect(ended).rejects.toMatchObject({ code });
      await expect(fence.transaction(token, (tx) => run(tx, WRITE))).resolves.toBeDefined();
    },
  );
}

const ENDINGS = [
  ['COMMIT'],
  ['BEGIN', WRITE, 'COMMIT'],
  ['COMMIT', 'BEGIN'],
  ['ROLLBACK', 'BEGIN', WRITE],
  ['ROLLBACK AND CHAIN', WRITE],
];
const SWALLOWED = [[WRITE, "INSERT INTO seat VALUES ('a', 2)"]];

describe('on PostgreSQL', () => {
  const database = usePostgres(async (pool) => {
    await pool.query(`${postgresFence(pool).ddl()} ${SEAT}; INSERT INTO seat VALUES ('a', 0)`);
    return closeAll;
  });

  const sent: string[] = [];
  async function pgPool(options: pg.PoolConfig): Promise<Client> {
    const pool = new pg.Pool({ connectionString: database.url, max: 1, ...options });
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...all: unknown[]) => unknown;
      Object.assign(client, {
        query: (statement: string | { text: string }, ...rest: unknown[]) => {
          sent.push(typeof statement === 'string' ? statement : statement.text);
          return query(statement, ...rest);
        },
      });
    });
    return {
      fence: postgresFence(pool as PostgresPool),
      run: (tx, text) => tx.query(text),
      close: () => pool.end(),
    };
  }

  const pools: Record<string, pg.PoolConfig> = { pg: {}, 'pg with pipeline': { pipeline: true } };
  for (const [name, options] of Object.entries(pools))
    itNotices(name, [...ENDINGS, ...SWALLOWED], () => pgPool(options));

  it('pg needs no round trip for it, and writes nothing in a transaction that is another one', async () => {
    const { fence, run, close } = await pgPool({});
    try {
      const token = new FencingToken(1, ['seat'], 'h');
      await database.pool.query('UPDATE seat SET n = 0');
      const replaced = fence.transaction(token, async (tx) => {
        for (const statement of ['ROLLBACK', 'BEGIN', WRITE]) await run(tx, statement);
      });
      await expect(replaced).rejects.toThrow(/had ended before its commit/);
      const { rows } = await database.pool.query('SELECT n FROM seat');
      expect(rows).toEqual([{ n: 0 }]);
      // A key that is new in the table costs a statement more.
      await fence.claim(token);
      sent.length = 0;
      await fence.transaction(token, (tx) => run(tx, WRITE));
      expect(sent).toEqual([
        'BEGIN',
        expect.stringMatching(/^INSERT INTO redlock_fence/),
        WRITE,
        expect.stringMatching(/^SELECT .*; COMMIT$/),
      ]);
    } finally {
      await close();
    }
  });

  it('does not fence what the work did not wait for, as the docstring says', async () => {
    const { fence, run, close } = await pgPool({});
    try {
      const key = `ended:${(count += 1)}`;
      const [older, newer] = [1, 2].map((value) => new FencingToken(value, [key], `h${value}`));
      await database.pool.query('UPDATE seat SET n = 0');
      let goOn = (): void => undefined;
      let late: Promise<unknown> | undefined;
      await fence.transaction(older, (tx) => {
        late = new Promise<void>((resolve) => (goOn = resolve)).then(() => run(tx, WRITE));
      });
      await fence.claim(newer);
      goOn();
      await late;
      await expect(database.pool.query('SELECT n FROM seat')).resolves.toMatchObject({
        rows: [{ n: 1 }],
      });
    } finally {
      await close();
    }
  });

  it('does not see a refusal that was swallowed with its savepoint, as the docstring says', async () => {
    const client = knexClient({ client: 'pg', connection: database.url });
    try {
      const { fence } = client;
      const [own, stale, newer] = ['own', 'stale', 'newer'].map(
        (name, index) => new FencingToken(index + 1, [index === 0 ? 'own' : 'other'], name),
      );
      await database.pool.query('UPDATE seat SET n = 0');
      await fence.claim(newer);
      await fence.transaction(own, async (tx) => {
        const nested = tx.transaction((savepoint: unknown) => fence.advance(savepoint, stale));
        await expect(nested).rejects.toMatchObject({ code: 'STALE_TOKEN' });
        await tx.raw(WRITE);
      });
      await expect(database.pool.query('SELECT n FROM seat')).resolves.toMatchObject({
        rows: [{ n: 1 }],
      });
    } finally {
      await client.close();
    }
  });

  itNotices('TypeORM', [...ENDINGS, ...SWALLOWED], async () => ({
    ...(await typeormClient({ type: 'postgres', url: database.url })),
    run: (tx, text) => tx.query(text),
  }));
  itNotices('Knex', [...ENDINGS, ...SWALLOWED], async () => ({
    ...knexClient({ client: 'pg', connection: database.url }),
    run: (tx, text) => tx.raw(text),
  }));
  itNotices('Kysely', [...ENDINGS, ...SWALLOWED], async () => ({
    ...kyselyClient(database.url, 'postgresql'),
    run: (tx, text) => kyselySql.raw(text).execute(tx),
  }));
  itNotices('Drizzle', [...ENDINGS, ...SWALLOWED], async () => ({
    ...drizzleClient(database.url, 'postgresql'),
    run: (tx, text) => tx.execute(sql.raw(text)),
  }));
  itNotices('Prisma', [['COMMIT'], ...SWALLOWED], async () => ({
    ...(await openPrismaClient(prismaPg(database.url))),
    run: (tx, text) => tx.$executeRawUnsafe(text),
  }));
  itNotices('PGlite', [['COMMIT'], ...SWALLOWED], async () => {
    const lite = await startPglite();
    const fence = pgliteFence(lite);
    await lite.exec(`${fence.ddl()} ${SEAT}; INSERT INTO seat VALUES ('a', 0)`);
    return { fence, run: (tx, text) => tx.query(text), close: () => lite.close() };
  });
});

describe('on SQLite', () => {
  afterAll(closeAll);
  const endings = [
    ['COMMIT'],
    ['COMMIT', 'BEGIN IMMEDIATE'],
    ['ROLLBACK', 'BEGIN IMMEDIATE', WRITE],
    [WRITE, "INSERT OR ROLLBACK INTO seat VALUES ('a', 2)", WRITE],
  ];
  const setUp = [
    sqliteFence(new Database(':memory:')).ddl(),
    SEAT,
    "INSERT INTO seat VALUES ('a', 0)",
  ];

  const drivers = { 'better-sqlite3': Database, 'node:sqlite': nodeSqlite() ?? Database };
  for (const [name, Driver] of Object.entries(drivers))
    itNotices(name, endings, async () => {
      const database = new Driver(':memory:');
      for (const statement of setUp) database.exec(statement);
      return {
        fence: sqliteFence(database),
        run: async (_tx, text) => database.exec(text) ?? 'done',
        close: () => database.close(),
      };
    });

  it('notices it in synchronous work, too', async () => {
    const database = new Database(':memory:');
    for (const statement of setUp) database.exec(statement);
    const token = new FencingToken(1, ['seat'], 'h');
    const ended = sqliteFence(database).transaction(token, (tx) => void tx.exec('COMMIT'));
    await expect(ended).rejects.toThrow(/had ended before its commit/);
    expect(database.inTransaction).toBe(false);
  });

  itNotices('Knex on SQLite', endings, async () => {
    const connection = { filename: ':memory:' };
    const client = knexClient({ client: 'better-sqlite3', connection, useNullAsDefault: true });
    for (const statement of setUp) await (client.outside[0] as any).raw(statement);
    return { ...client, run: (tx, text) => tx.raw(text) };
  });
  itNotices('TypeORM', endings, async () => {
    const client = await typeormClient({ type: 'better-sqlite3', database: ':memory:' });
    for (const statement of setUp) await (client.outside[0] as any).query(statement);
    return { ...client, run: (tx, text) => tx.query(text) };
  });
});
