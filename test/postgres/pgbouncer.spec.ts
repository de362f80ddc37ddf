import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { LockBusyError, StaleTokenError, type LockEvent } from '../../lib/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { startPgBouncer, type PgBouncer } from '../support/databases/pgbouncer.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { ballotNow, NodeDriver } from '../support/node-driver.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';

const database = usePostgres(async (pool) => {
  await pool.query(postgresNode(pool).ddl());
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, customer text)');
});
const open = useRedlocks();
const closing = useClosing();

let seats = 0;
const nextSeat = () => `seat${(seats += 1)}`;
const [ANA, BOB] = ['ana.....', 'bob.....'];

/** Something that happens: resolves with what it was given first. */
function first<Event>(): { readonly come: Promise<Event>; readonly note: (event: Event) => void } {
  let note: (event: Event) => void = () => undefined;
  const come = new Promise<Event>((resolve) => (note = resolve));
  return { come, note };
}

describe.each([1, 10])('behind a pooler in transaction mode, with pools of %d', (size) => {
  let pooler: PgBouncer;
  const pools: pg.Pool[] = [];
  const openPool = () => {
    const pool = new pg.Pool({ connectionString: pooler.url, max: size });
    pool.on('error', () => undefined);
    pools.push(pool);
    return pool;
  };

  beforeAll(async () => void (pooler = await startPgBouncer(database.url, size)));
  afterAll(async () => {
    await Promise.all(pools.map((pool) => pool.end()));
    await pooler?.stop();
  });

  it('two services take a lock in turn, with transactions in which the former holder is refused', async () => {
    const seat = nextSeat();
    const [own, others] = [openPool(), openPool()];
    const ana = await open([postgresNode(own)]);
    const bob = await open([postgresNode(others)]);
    const book = (customer: string) => (client: pg.PoolClient) =>
      client.query(
        'INSERT INTO seat VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET customer = $2',
        [seat, customer],
      );
    const former = await ana.acquire(seat);
    await expect(bob.acquire(seat, { wait: 0 })).rejects.toThrow(LockBusyError);
    await postgresFence(own).transaction(former.token, book('Ana'));
    const waiting = bob.acquire(seat, { wait: '60s' });
    await former.release();
    const present = await waiting;
    expect(present.token.value).toBeGreaterThan(former.token.value);
    const late = postgresFence(own).transaction(former.token, book('Ana again'));
    await expect(late).rejects.toThrow(StaleTokenError);
    await postgresFence(others).transaction(present.token, book('Bob'));
    await present.release();
    const { rows } = await database.pool.query('SELECT customer FROM seat WHERE id = $1', [seat]);
    expect(rows).toEqual([{ customer: 'Bob' }]);
  });

  it('a set of keys is taken as a whole, after all who had a part of it', async () => {
    const [one, two] = [nextSeat(), nextSeat()];
    const ana = await open([postgresNode(openPool())]);
    const bob = await open([postgresNode(openPool())]);
    const [left, right] = [await ana.acquire(one), await ana.acquire(two)];
    const waiting = bob.acquire([two, one], { wait: '60s' });
    await left.release();
    await expect(bob.acquire([one, two], { wait: 0 })).rejects.toThrow(LockBusyError);
    await right.release();
    const both = await waiting;
    await expect(ana.acquire(one, { wait: 0 })).rejects.toThrow(LockBusyError);
    await both.release();
  });

  it('a lock is renewed while work under it runs', async () => {
    const pool = openPool();
    const extended = first<LockEvent>();
    const onEvent = (event: LockEvent) => void (event.type === 'extended' && extended.note(event));
    const ana = await open([postgresNode(pool)], { ttl: '3s', nodeTimeout: '1s', onEvent });
    await ana.withLock(nextSeat(), async ({ token, signal }) => {
      // With more than one connection it is also renewed while a transaction has the row of the fence.
      await (size === 1
        ? extended.come
        : postgresFence(pool).transaction(token, () => extended.come));
      expect(signal.aborted).toBe(false);
    });
  });

  it('no connection is held while work under locks runs, neither of the pool nor of the pooler', async () => {
    const pool = openPool();
    const ana = await open([postgresNode(pool)], { ttl: '60s' });
    const locks = await Promise.all(Array.from({ length: 20 }, () => ana.acquire(nextSeat())));
    expect(await pooler.busyConnections()).toBe(0);
    expect(pool.totalCount - pool.idleCount).toBe(0);
    await postgresFence(pool).transaction(locks[0]!.token, async () => {
      expect(await pooler.busyConnections()).toBe(1);
      expect(pool.totalCount - pool.idleCount).toBe(1);
    });
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('what listens through the pooler is not taken for listening, and asks for its turn', async () => {
    const names = new NodeNames('lock:', [nextSeat()]);
    const listen = () => new pg.Client({ connectionString: pooler.url });
    const witness = new pg.Client({ connectionString: database.url });
    await witness.connect();
    const proof = first<pg.Notification>();
    witness.on('notification', proof.note);
    await witness.query(`LISTEN "redlock_${BOB}"`);
    const ana = await NodeDriver.open(closing(postgresNode(openPool())));
    const bob = await NodeDriver.open(closing(postgresNode(openPool(), { listen })));
    await Promise.all([ana.join(), bob.join()]);
    bob.node.listen(`turns:${BOB}`);
    // Its proof went through the database: what comes back to it has come.
    expect((await proof.come).payload).toBe('proof');
    await ana.acquire(names, `${ANA}-1`, ballotNow());
    expect(await bob.wait(names, BOB, `turns:${BOB}`)).toMatchObject({ freeInMs: 100 });
    expect(bob.listens).toBe(0);
    await witness.end();
  });

  it('what listens beside the pooler hears of its turn, and does not ask for it', async () => {
    const names = new NodeNames('lock:', [nextSeat()]);
    const listen = () => new pg.Client({ connectionString: database.url });
    const ana = await NodeDriver.open(closing(postgresNode(openPool())));
    const bob = await NodeDriver.open(closing(postgresNode(openPool(), { listen })));
    await Promise.all([ana.join(), bob.join()]);
    await bob.listen(`turns:${BOB}`);
    await ana.acquire(names, `${ANA}-1`, ballotNow());
    const place = await bob.wait(names, BOB, `turns:${BOB}`);
    expect(place).toMatchObject({ kind: 'waiting' });
    expect((place as { freeInMs: number }).freeInMs).toBeGreaterThan(30_000);
    const asked = bob.settled;
    await ana.release(names, `${ANA}-1`);
    await bob.untilTurn(names.locks[0]!);
    expect(bob.settled).toBe(asked);
  });

  it('a pooler that crashes costs no lock, and whoever waits gets it afterwards', async () => {
    const seat = nextSeat();
    const ana = await open([postgresNode(openPool())], { ttl: '60s' });
    const bob = await open([postgresNode(openPool())]);
    const former = await ana.acquire(seat);
    const waiting = bob.acquire(seat, { wait: '60s' });
    await pooler.crash();
    await eventually(() => ana.acquire(nextSeat(), { wait: '60s' }));
    expect(former.signal.aborted).toBe(false);
    await former.release();
    const present = await waiting;
    expect(present.token.value).toBeGreaterThan(former.token.value);
  });
});
