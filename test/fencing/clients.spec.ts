import { beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { mysqlFence, postgresFence, sqliteFence } from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { itKeepsItsPromises } from './support/client-promises.ts';
import { CLIENTS, pglite, type DatabaseName } from './support/clients.ts';
import { inPostgres } from './support/hand-written-transactions.ts';
import { useClientUrls } from './support/use-clients.ts';

// Duties of each driver and ORM on each database. That it fences at all, conformance.spec.ts shows.

const SEAT = 'CREATE TABLE seat (id varchar(9) PRIMARY KEY, n integer)';
const FILL = "INSERT INTO seat VALUES ('a', 0)";
const WRITE = 'UPDATE seat SET n = 1';
const SWALLOWED = [WRITE, "INSERT INTO seat VALUES ('a', 2)"];

/** Statements that end the transaction inside the work and free the row of the fence: what follows is not fenced. */
const ENDINGS: Readonly<Record<DatabaseName, readonly (readonly string[])[]>> = {
  PostgreSQL: [['COMMIT'], ['ROLLBACK', 'BEGIN', WRITE], ['ROLLBACK AND CHAIN', WRITE], SWALLOWED],
  PGlite: [['COMMIT'], SWALLOWED],
  MariaDB: [['COMMIT'], ['CREATE TABLE IF NOT EXISTS implicit_commit (id INT)', WRITE]],
  SQLite: [
    ['COMMIT'],
    ['ROLLBACK', 'BEGIN IMMEDIATE', WRITE],
    [WRITE, "INSERT OR ROLLBACK INTO seat VALUES ('a', 2)", WRITE],
  ],
};
/** Prisma loses its connection when others end and begin. */
const endingsOf = (on: DatabaseName, name: string) =>
  name === 'Prisma' ? [['COMMIT'], SWALLOWED] : ENDINGS[on];

describe('a fence over', () => {
  const postgres = usePostgres((pool) =>
    pool.query(`${postgresFence(pool).ddl()} ${SEAT}; ${FILL}`),
  );
  const mariadb = useMariadb(async (pool) => {
    for (const statement of [mysqlFence(pool).ddl(), SEAT, FILL]) await pool.query(statement);
  });
  const urlOf = useClientUrls({ postgres, mariadb });
  beforeAll(async () => {
    for (const name of Object.keys(CLIENTS.SQLite)) {
      const database = new Database(urlOf(name, 'SQLite'));
      database.exec(`${sqliteFence(database).ddl()} ${SEAT}; ${FILL}`);
      database.close();
    }
    await (await pglite.start()).exec(`${SEAT}; ${FILL}`);
  });

  for (const [on, clients] of Object.entries(CLIENTS) as [DatabaseName, typeof CLIENTS.SQLite][])
    for (const [name, open] of Object.entries(clients))
      itKeepsItsPromises(`${name} on ${on}`, open, {
        url: () => urlOf(name, on),
        endings: endingsOf(on, name),
        write: WRITE,
        ...(on === 'SQLite' && { levels: [] }),
      });

  it('pg writes nothing in a transaction that is another one', async () => {
    const fence = postgresFence(postgres.pool);
    await postgres.pool.query('UPDATE seat SET n = 0');
    const replaced = fence.transaction(new FencingToken(1, ['replaced'], 'h'), async (tx) => {
      for (const statement of ['ROLLBACK', 'BEGIN', WRITE]) await tx.query(statement);
    });
    await expect(replaced).rejects.toThrow(/had ended before its commit/);
    const { rows } = await postgres.pool.query('SELECT n FROM seat');
    expect(rows).toEqual([{ n: 0 }]);
  });

  it('pg refuses an advance behind a COMMIT that was not awaited', async () => {
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
