import { describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import { LockBusyError, LockLostError, StaleTokenError } from '../../lib/index.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';

const database = usePostgres(async (pool) => {
  await pool.query(postgresNode(pool).ddl());
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, customer text)');
  await pool.query("INSERT INTO seat SELECT 'seat' || n FROM generate_series(1, 50) AS n");
});
const open = useRedlocks();
const closing = useClosing();

let seats = 0;
const nextSeat = () => `seat${(seats += 1)}`;
const fence = () => postgresFence(database.pool);
const book = (customer: string, seat: string) => (client: pg.PoolClient) =>
  client.query('UPDATE seat SET customer = $1 WHERE id = $2', [customer, seat]);
const customerOf = async (seat: string) => {
  const { rows } = await database.pool.query('SELECT customer FROM seat WHERE id = $1', [seat]);
  return rows[0].customer as string | null;
};
/** What an operator can do to a lease: here, to let it end. */
const endLease = (seat: string) =>
  database.pool.query(
    'UPDATE redlock_lease SET valid_until = clock_timestamp() WHERE resource = $1',
    [`lock:${seat}`],
  );
const fenceRow = async (seat: string) => {
  const sql = 'SELECT token::text, holder FROM redlock_fence WHERE resource = $1';
  return (await database.pool.query(sql, [seat])).rows[0];
};

describe('a database as the only node', () => {
  it('gives one lock to one holder, by services in their own connections, and the next token is higher', async () => {
    const seat = nextSeat();
    const [ana, bob] = [
      await open([postgresNode(database.pool)]),
      await open([postgresNode(database.pool)]),
    ];
    const first = await ana.acquire(seat);
    await expect(bob.acquire(seat, { wait: 0 })).rejects.toThrow(LockBusyError);
    await first.release();
    const second = await bob.acquire(seat);
    expect(second.token.value).toBeGreaterThan(first.token.value);
    await second.release();
  });

  it('claims with the grant: a write of the holder before is refused from then on, and nothing has to reach the fence first', async () => {
    const seat = nextSeat();
    const [ana, bob] = [
      await open([postgresNode(database.pool)]),
      await open([postgresNode(database.pool)]),
    ];
    const paused = await ana.acquire(seat, { extend: false });
    expect(await fenceRow(seat)).toEqual({
      token: String(paused.token.value),
      holder: paused.token.holder,
    });
    await endLease(seat);
    const next = await bob.acquire(seat);
    await expect(fence().transaction(paused.token, book('Ana', seat))).rejects.toThrow(
      StaleTokenError,
    );
    await fence().transaction(next.token, book('Bob', seat));
    expect(await customerOf(seat)).toBe('Bob');
    await next.release();
  });

  it('is busy while a transaction of the holder before is open, which commits, and refuses that holder afterwards', async () => {
    const seat = nextSeat();
    const [ana, bob] = [
      await open([postgresNode(database.pool)]),
      await open([postgresNode(database.pool)]),
    ];
    const late = await ana.acquire(seat, { extend: false });
    await fence().transaction(late.token, async (client) => {
      await endLease(seat);
      const refusal = await bob.acquire(seat, { wait: 0 }).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(LockBusyError);
      expect((refusal as LockBusyError).causes).toMatchObject([
        { message: 'a fence transaction of the holder before is still open' },
      ]);
      await book('Ana', seat)(client);
    });
    expect(await customerOf(seat)).toBe('Ana');
    const next = await bob.acquire(seat);
    await expect(fence().transaction(late.token, book('Ana', seat))).rejects.toThrow(
      StaleTokenError,
    );
    await next.release();
  });

  it('does not bring back a holder after an attempt that had the fence', async () => {
    const seat = nextSeat();
    const names = new NodeNames('lock:', [seat]);
    const driver = await NodeDriver.open(closing(postgresNode(database.pool)));
    await driver.join();
    const ballot = ballotNow();
    expect(await driver.acquire(names, 'holder..1', ballot)).toEqual({ kind: 'accepted' });
    await endLease(seat);
    expect(await driver.acquire(names, 'attempt.1', ballot + 1)).toEqual({ kind: 'accepted' });
    expect(await driver.release(names, 'attempt.1', { granted: false })).toMatchObject({
      deleted: 1,
    });
    expect(await driver.extend(names, 'holder..1', ballot)).toEqual({ kind: 'lost' });
  });

  it('refuses numbers below that of the fence, and accepts the next one above it', async () => {
    const seat = nextSeat();
    const names = new NodeNames('lock:', [seat]);
    const driver = await NodeDriver.open(closing(postgresNode(database.pool)));
    await driver.join();
    const ballot = ballotNow();
    const ahead = ballot + 60_000_000;
    await fence().claim({ value: ahead, keys: [seat], holder: 'elsewhere' });
    const refused = { kind: 'stale', floor: ahead };
    expect(await driver.acquire(names, 'holder..1', ballot)).toMatchObject(refused);
    expect(await driver.acquire(names, 'holder..1', ahead + 1)).toEqual({ kind: 'accepted' });
  });

  it('renews a lock while its work runs, and tells a holder whose lease another one took', async () => {
    const seat = nextSeat();
    const ana = await open([postgresNode(database.pool)]);
    const lock = await ana.acquire(seat, { ttl: 300 });
    const ends = async () => {
      const sql = 'SELECT valid_until FROM redlock_lease WHERE resource = $1';
      return (await database.pool.query(sql, [`lock:${seat}`])).rows[0].valid_until as Date;
    };
    const first = await ends();
    while ((await ends()).getTime() <= first.getTime()) await new Promise(setImmediate);
    await database.pool.query(
      "UPDATE redlock_lease SET holder = 'another', token = token + 1, valid_until = 'infinity' WHERE resource = $1",
      [`lock:${seat}`],
    );
    const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    await lost;
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('takes a set of keys as a whole or not at all', async () => {
    const [one, two] = [nextSeat(), nextSeat()];
    const ana = await open([postgresNode(database.pool)]);
    const bob = await open([postgresNode(database.pool)]);
    const held = await bob.acquire(two);
    await expect(ana.acquire([one, two], { wait: 0 })).rejects.toThrow(LockBusyError);
    expect(await fenceRow(one)).toBeUndefined();
    await held.release();
    const both = await ana.acquire([two, one]);
    expect((await fenceRow(one)).token).toBe(String(both.token.value));
    expect((await fenceRow(two)).token).toBe(String(both.token.value));
    await both.release();
  });

  it('needs no second connection of a pool that has one', async () => {
    const { Pool } = (await import('pg')).default;
    const pool = new Pool({ connectionString: database.url, max: 1 });
    const seat = nextSeat();
    const only = await open([postgresNode(pool)]);
    await only.withLock(seat, ({ token }) =>
      postgresFence(pool).transaction(token, book('Ana', seat)),
    );
    expect(await customerOf(seat)).toBe('Ana');
    await only.close();
    await pool.end();
  });

  it('hands a lock to the services that wait for it, without notifications', async () => {
    const seat = nextSeat();
    const services = await Promise.all(
      Array.from({ length: 4 }, () => open([postgresNode(database.pool)])),
    );
    let inside = 0;
    let most = 0;
    await Promise.all(
      services.flatMap((each) =>
        Array.from({ length: 3 }, () =>
          each.withLock(
            seat,
            async () => {
              inside += 1;
              most = Math.max(most, inside);
              await new Promise(setImmediate);
              inside -= 1;
            },
            { wait: '60s' },
          ),
        ),
      ),
    );
    expect(most).toBe(1);
  });
});
