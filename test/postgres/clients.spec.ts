import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockBusyError, StaleTokenError } from '../../lib/index.ts';
import { pgliteFence, postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { CLIENTS, pglite, type FencedClient } from '../fencing/support/clients.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';

/** The schema is in no search path. */
const table = 'app.redlock_fence';
const SEATS = 'CREATE SCHEMA app; CREATE TABLE app.seat (id text PRIMARY KEY, customers text)';

const database = usePostgres((pool) =>
  pool.query(`${SEATS}; ${postgresNode(postgresFence(pool, { table })).ddl()}`),
);
const open = useRedlocks();
const closing = useClosing();

beforeAll(async () => {
  const lite = await pglite.start();
  await lite.exec(`${SEATS}; ${postgresNode(pgliteFence(lite, { table })).ddl()}`);
});

afterAll(() => pglite.close());

const { PostgreSQL, PGlite } = CLIENTS;

describe.each(Object.entries({ ...PostgreSQL, ...PGlite }))(
  'a node over %s, with its tables in a schema of their own',
  (name, openClient) => {
    const seat = `seat of ${name}`;
    let client: FencedClient;
    beforeAll(async () => void (client = await openClient(database.url, { table })));
    afterAll(async () => void (await client?.close()));

    const book = (customer: string) => (transaction: unknown) =>
      client.execute(
        transaction,
        `INSERT INTO app.seat VALUES ('${seat}', '${customer}')
         ON CONFLICT (id) DO UPDATE SET customers = app.seat.customers || ', ${customer}'`,
      );
    const customers = async () => {
      const sql = 'SELECT customers FROM app.seat WHERE id = $1';
      const lite = await pglite.start();
      const { rows } = await (name in PGlite
        ? lite.query(sql, [seat])
        : database.pool.query(sql, [seat]));
      return rows;
    };

    it('passes the checks of the start', async () => {
      const driver = await NodeDriver.open(closing(postgresNode(client.fence)));
      const facts = await driver.examine();
      if (facts.kind !== 'facts') throw new Error(facts.message);
      expect(facts.findings?.filter(({ severity }) => severity === 'error')).toEqual([]);
    });

    it('gives a lock to one service after the other, and transactions under it', async () => {
      const ana = await open([postgresNode(client.fence)]);
      const bob = await open([postgresNode(client.fence)]);
      const first = await ana.acquire(seat);
      await expect(bob.acquire(seat, { wait: 0 })).rejects.toThrow(LockBusyError);
      await client.fence.transaction(first.token, book('Ana'));
      const waiting = bob.acquire(seat, { wait: '60s' });
      await first.release();
      const second = await waiting;
      expect(second.token.value).toBeGreaterThan(first.token.value);
      const late = client.fence.transaction(first.token, book('Ana again'));
      await expect(late).rejects.toThrow(StaleTokenError);
      await client.fence.transaction(second.token, book('Bob'));
      await second.release();
      expect(await customers()).toEqual([{ customers: 'Ana, Bob' }]);
    });
  },
);
