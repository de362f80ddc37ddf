import type { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/pglite';
import Database from 'libsql';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  drizzleFence,
  mysqlFence,
  pgliteFence,
  postgresFence,
  sqliteFence,
  type Fence,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { itKeepsTransactionPromises } from './support/transaction-promises.ts';

const sqlite = new Database(':memory:');
sqlite.exec(sqliteFence(sqlite).ddl());
afterAll(() => void sqlite.close());
const postgres = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
const mariadb = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));

itKeepsTransactionPromises('PostgreSQL', (options) => postgresFence(postgres.pool, options));
itKeepsTransactionPromises('MariaDB', (options) => mysqlFence(mariadb.pool, options));
itKeepsTransactionPromises('SQLite', (options) => sqliteFence(sqlite, options));

it.each(['SQLite', 'PGlite'])(
  'refuses other keys and holders inside where %s has one connection, which would wait for itself',
  async (name) => {
    const lite = name === 'PGlite' ? await startPglite() : undefined;
    const make = (): Fence => (lite ? pgliteFence(lite) : sqliteFence(sqlite));
    const [fence, second] = [make(), make()];
    await lite?.exec(fence.ddl());
    const [outer, other] = ['a', 'b'].map((holder) => new FencingToken(1, [holder], holder));
    const uses = [fence, second].flatMap((each) => [
      () => each.claim(other),
      () => each.transaction(other, () => undefined),
    ]);
    await fence.transaction(outer, async (tx) => {
      for (const use of uses)
        await expect(use()).rejects.toMatchObject({ code: 'FENCED_USAGE', keys: ['b'] });
      await fence.advance(tx, other);
    });
    for (const use of uses) await use();
    await lite?.close();
  },
);

describe('PGlite, in which nobody else can wait, refuses each time-out for waits between sessions', () => {
  let lite: PGlite;
  let server: PGLiteSocketServer;
  let pool: pg.Pool;
  beforeAll(async () => {
    lite = await startPglite();
    await lite.exec(pgliteFence(lite).ddl());
    server = new PGLiteSocketServer({ db: lite, port: 0 });
    const listening = new Promise((resolve) =>
      server.addEventListener('listening', (event) => resolve((event as CustomEvent).detail)),
    );
    await server.start();
    const { port, host } = (await listening) as { port: number; host: string };
    pool = new pg.Pool({ port, host, max: 1, database: 'postgres', user: 'postgres' });
  });
  afterAll(async () => {
    await pool.end();
    await server.stop();
    await lite.close();
  });

  const fences: Readonly<Record<string, () => Fence>> = {
    pgliteFence: () => pgliteFence(lite),
    'drizzleFence over it': () => drizzleFence(drizzle(lite), { sql }),
    'postgresFence over its socket': () => postgresFence(pool),
  };
  it.each(Object.keys(fences))('in %s', async (name) => {
    const fence = fences[name]!();
    const token = { value: 1, keys: [name], holder: 'h' };
    for (const option of ['lockTimeout', 'idleInTransactionTimeout']) {
      const call = fence.transaction(token, () => 'ran', { [option]: '1h' });
      await expect(call).rejects.toMatchObject({
        code: 'REDLOCK_CONFIG',
        option,
        message: expect.stringMatching(/waits between sessions, and a PGlite has only one: leave/),
      });
    }
    await expect(fence.transaction(token, () => 'ran')).resolves.toBe('ran');
  });
});
