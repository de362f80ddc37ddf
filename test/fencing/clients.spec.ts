import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { mysqlFence, postgresFence, sqliteFence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { inPostgres } from './support/hand-written-transactions.ts';
import { CLIENTS, type OpenClient } from './support/open-clients.ts';

// What each driver and ORM owes on each database. That it fences at all, the conformance kit shows.

const DAY = 86_400_000;
const SEAT = 'CREATE TABLE seat (id varchar(9) PRIMARY KEY, n integer)';
const FILL = "INSERT INTO seat VALUES ('a', 0)";
const WRITE = 'UPDATE seat SET n = 1';
const SWALLOWED = [WRITE, "INSERT INTO seat VALUES ('a', 2)"];

/** What ends the transaction inside the work and frees the row of the fence: what follows is not fenced. */
const ENDINGS: Readonly<Record<keyof typeof CLIENTS, readonly (readonly string[])[]>> = {
  PostgreSQL: [['COMMIT'], ['ROLLBACK', 'BEGIN', WRITE], ['ROLLBACK AND CHAIN', WRITE], SWALLOWED],
  MariaDB: [['COMMIT'], ['CREATE TABLE IF NOT EXISTS implicit_commit (id INT)', WRITE]],
  SQLite: [
    ['COMMIT'],
    ['ROLLBACK', 'BEGIN IMMEDIATE', WRITE],
    [WRITE, "INSERT OR ROLLBACK INTO seat VALUES ('a', 2)", WRITE],
  ],
};
/** Prisma loses its connection when others end and begin. */
const endingsOf = (on: keyof typeof CLIENTS, name: string) =>
  name === 'Prisma' ? [['COMMIT'], SWALLOWED] : ENDINGS[on];

function itKeepsItsPromises(on: keyof typeof CLIENTS, urlOf: () => string): void {
  describe.each(Object.entries(CLIENTS[on]))(`%s on ${on}`, (name, open) => {
    let client: OpenClient;
    let aged: OpenClient;
    beforeAll(async () => {
      client = await open(urlOf());
      aged = await open(urlOf(), { maxAge: '30d' });
    });
    afterAll(() => Promise.all([client, aged].map((each) => each?.close())));
    const token = (value: number, key: string): FencingToken =>
      new FencingToken(value, [`${name}:${key}`], `h${value}`);

    it('advances in a transaction of the user, and refuses to outside and when it is over', async () => {
      // That of SQLite throws at once.
      const advance = async (transaction: unknown) =>
        client.fence.advance(transaction, token(1, 'own'));
      let finished: unknown;
      await client.run((transaction) => {
        finished = transaction;
        return advance(transaction);
      });
      await expect(advance(finished)).rejects.toBeDefined();
      for (const outside of [...client.outside, undefined, null, {}, () => undefined])
        await expect(advance(outside)).rejects.toMatchObject({
          code: 'FENCED_USAGE',
          message: expect.stringContaining('outside a transaction'),
        });
    });

    it('reports no success when the work ends its transaction, or swallows what does', async () => {
      // Some are not what they were afterwards.
      const ending = await open(urlOf());
      for (const statements of endingsOf(on, name)) {
        const ended = ending.fence.transaction(token(1, 'ended'), async (tx) => {
          for (const statement of statements)
            await Promise.resolve(ending.query(tx, statement)).catch(() => undefined);
        });
        const code = await ended.then(
          () => 'success',
          (error) => error.code,
        );
        // Knex says instead that it can't roll back what SQLite has rolled back.
        expect([statements, code]).toEqual([
          statements,
          expect.stringMatching(name === 'Knex' ? /FENCED|SQLITE_ERROR/ : /FENCED/),
        ]);
        await ending.fence.transaction(token(1, 'ended'), (tx) => ending.query(tx, WRITE));
      }
      await ending.close();
    });

    it('prunes, tells how many rows it deleted, and admits none of their tokens', async () => {
      const keys = Array.from({ length: 130 }, (_none, index) => `${name}:${index}`);
      const days = (count: number) => (Date.now() - count * DAY) * 1_000;
      await client.fence.claim({ value: days(40), keys, holder: 'old' });
      await aged.fence.claim(token(days(20), 'young'));
      const counts = [await aged.fence.prune(), await aged.fence.prune()];
      const late = token(days(31), '0');
      const refusal = { code: 'STALE_TOKEN', currentHolder: '' };
      await expect(aged.fence.claim(late)).rejects.toMatchObject(refusal);
      await expect(aged.fence.transaction(late, () => 'ran')).rejects.toMatchObject(refusal);
      expect(counts).toEqual([130, 0]);
      expect(await aged.fence.check()).toEqual([]);
    });
  });
}

describe('fences', () => {
  const postgres = usePostgres((pool) =>
    pool.query(`${postgresFence(pool).ddl()} ${SEAT}; ${FILL}`),
  );
  const mariadb = useMariadb(async (pool) => {
    for (const statement of [mysqlFence(pool).ddl(), SEAT, FILL]) await pool.query(statement);
  });
  let folder: string;
  const file = (): string => join(folder, 'data.db');
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'fenced-lock-clients-'));
    const database = new Database(file());
    database.exec(`${sqliteFence(database).ddl()} ${SEAT}; ${FILL}`);
    database.close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  itKeepsItsPromises('PostgreSQL', () => postgres.url);
  itKeepsItsPromises('MariaDB', () => mariadb.url);
  itKeepsItsPromises('SQLite', file);

  it('over pg write nothing in a transaction that is another one', async () => {
    const fence = postgresFence(postgres.pool);
    await postgres.pool.query('UPDATE seat SET n = 0');
    const replaced = fence.transaction(new FencingToken(1, ['replaced'], 'h'), async (tx) => {
      for (const statement of ['ROLLBACK', 'BEGIN', WRITE]) await tx.query(statement);
    });
    await expect(replaced).rejects.toThrow(/had ended before its commit/);
    const { rows } = await postgres.pool.query('SELECT n FROM seat');
    expect(rows).toEqual([{ n: 0 }]);
  });

  it('over pg refuse an advance behind a COMMIT that was not awaited', async () => {
    const fence = postgresFence(postgres.pool);
    let committed: Promise<unknown> | undefined;
    const advanced = inPostgres(postgres.pool, async (client) => {
      committed = client.query('COMMIT');
      await fence.advance(client, new FencingToken(1, ['behind'], 'h'));
    });
    await expect(advanced).rejects.toThrow(/outside a transaction/);
    await committed;
  });
});
