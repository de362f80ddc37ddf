import { beforeAll, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import type { Timers } from '../../lib/core/environment.ts';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { systemEnvironment } from '../../lib/core/system-environment.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { lockDatabase } from '../../lib/postgres/lock-database.ts';
import { PostgresLockNode } from '../../lib/postgres/postgres-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { Link } from '../support/link.ts';
import { ManualEnvironment, seededRandom } from '../support/manual-environment.ts';
import { ballotNow, NodeDriver } from '../support/node-driver.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';
import { newNames, useOwnServer } from './own-server.ts';

const server = useOwnServer();
const { newPool, openDriver } = server;
const open = useRedlocks();
const closing = useClosing();
const SILENCE_LIMIT_MS = 61_000;

describe('durability', () => {
  const isFlushed = async (over: pg.Pool) => {
    const sql = 'SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn() AS flushed';
    return (await over.query(sql)).rows[0].flushed as boolean;
  };

  it('a grant is on the disk before it is answered, also on a connection that does not wait for the disk', async () => {
    const lazy = newPool({ options: '-c synchronous_commit=off' });
    const driver = await openDriver(lazy);
    const names = newNames();
    const ballot = ballotNow();
    expect(await driver.acquire(names, 'holder..1', ballot)).toEqual({ kind: 'accepted' });
    expect(await isFlushed(server.pool)).toBe(true);
    expect(await driver.extend(names, 'holder..1', ballot)).toMatchObject({ kind: 'extended' });
    expect(await isFlushed(server.pool)).toBe(true);
  });

  it('the name of the database is on the disk before a process keeps to it', async () => {
    await server.pool.query('DELETE FROM redlock_process');
    await openDriver();
    expect(await isFlushed(server.pool)).toBe(true);
  });

  it('a refusal writes nothing', async () => {
    const driver = await openDriver();
    const [names, other] = [newNames(), newNames()];
    const set = new NodeNames(
      'lock:',
      [other, names].map(({ locks }) => locks[0]!.slice(5)),
    );
    await driver.acquire(other, 'before..1', ballotNow());
    await driver.release(other, 'before..1');
    await driver.acquire(names, 'holder..1', ballotNow());
    const position = async () =>
      (await server.pool.query('SELECT pg_current_wal_insert_lsn() AS at')).rows[0].at as string;
    const before = await position();
    for (const wanted of [names, set])
      for (let tries = 0; tries < 20; tries += 1)
        expect(await driver.acquire(wanted, 'another.1', ballotNow())).toMatchObject({
          kind: 'held',
          holder: 'holder..1',
        });
    expect(await position()).toBe(before);
  });

  it('locks, tokens and the fence outlive a crash of the server; holders go on, and others stay out', async () => {
    const [ana, bob] = [
      await open([postgresNode(server.pool)]),
      await open([postgresNode(server.pool)]),
    ];
    const lock = await ana.acquire('crash', { ttl: '10s' });
    await server.crash();
    await eventually(async () => {
      await expect(bob.acquire('crash', { wait: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    });
    await eventually(() => lock.extend());
    await eventually(() => lock.release());
    const next = await bob.acquire('crash', { wait: '20s' });
    expect(next.token.value).toBeGreaterThan(lock.token.value);
    await next.release();
  });
});

describe('rows that are out of date', () => {
  const HALF_AN_HOUR = 1_800_000_000;

  it('are deleted by one join in ten minutes, and the clock refuses then what they refused', async () => {
    const [old, late, held] = [newNames(), newNames(), newNames()];
    const driver = await openDriver();
    const ballot = ballotNow();
    await driver.acquire(held, 'holder..1', ballot);
    // It has been held, and renewed, for longer than rows are kept that nobody uses.
    await server.pool.query('UPDATE redlock_lease SET token = $2 WHERE resource = $1', [
      held.locks[0],
      ballot - HALF_AN_HOUR,
    ]);
    for (const names of [old, late])
      await server.pool.query(
        "INSERT INTO redlock_lease VALUES ($1, 'holder..2', $2, 0, now() - interval '20 minutes')",
        [names.locks[0], names === old ? ballot - HALF_AN_HOUR : ballot + HALF_AN_HOUR],
      );
    const kept = async () => {
      await driver.join(0, { configuration: '1 postgresql' });
      const sql = 'SELECT resource FROM redlock_lease WHERE resource = ANY ($1) ORDER BY token';
      const names = [old, late, held].flatMap(({ locks }) => locks);
      return (await server.pool.query(sql, [names])).rows.map(({ resource }) => resource);
    };
    expect(await kept()).toHaveLength(3);
    await server.pool.query(
      "UPDATE redlock_process SET joined_at = joined_at - interval '11 minutes' WHERE name = ''",
    );
    expect(await kept()).toEqual([...held.locks, ...late.locks]);
    const refused = { kind: 'stale', byClock: true };
    expect(await driver.acquire(old, 'late.....', ballot - HALF_AN_HOUR)).toMatchObject(refused);
    expect(await driver.extend(newNames(), 'late.....', ballot)).toEqual({ kind: 'lost' });
  });
});

describe('a connection', () => {
  const linkTo = async () => {
    const { hostname, port } = new URL(server.url);
    return closing(await Link.open({ host: hostname, port: Number(port) }));
  };
  const over = (link: Link, settings: pg.PoolConfig = {}) => {
    const url = new URL(server.url);
    url.port = String(link.port);
    return newPool({ connectionString: url.href, ...settings });
  };

  it('that goes silent is given up, and what it carried is unknown; the next one votes', async () => {
    const link = await linkTo();
    const driver = await openDriver(over(link), 300);
    const names = newNames();
    const ballot = ballotNow();
    link.setMode({ kind: 'hold', direction: 'replies' });
    const unknown = await driver.acquire(names, 'holder..1', ballot);
    expect(unknown).toMatchObject({ kind: 'failed', nothingWritten: false, reason: 'unreachable' });
    link.setMode({ kind: 'pass' });
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', expect.stringContaining('no answer'), 'opened']);
    // It had been granted; the release by its holder finds it.
    expect(await driver.release(names, 'holder..1', { granted: false })).toMatchObject({
      deleted: 1,
    });
  });

  it.each([
    ['one of several', {}],
    ['the only one, with a limit', { max: 1, connectionTimeoutMillis: 300 }],
  ])('that the network forgets while it is made is replaced: %s', async (_, settings) => {
    const link = await linkTo();
    link.setMode({ kind: 'hold', direction: 'replies' });
    const node = closing(postgresNode(over(link, settings)));
    const driver = await NodeDriver.open(node, { connected: false, silenceLimitMs: 300 });
    await eventually(() => expect(link.connections).toHaveLength(1));
    link.forget();
    link.setMode({ kind: 'pass' });
    await driver.untilEvents(1);
    expect((await driver.join()).kind).toBe('joined');
    link.resetConnections();
  });

  it('that is cut at any byte of an answer leaves one holder at most, who can release', async () => {
    const link = await linkTo();
    const cutting = over(link);
    const driver = await openDriver(cutting, 1_000);
    const steady = await openDriver();
    for (let round = 0; round < 12; round += 1) {
      const names = newNames();
      link.setMode({ kind: 'truncate', probability: round % 3 === 0 ? 1 : 0.5 });
      const reply = await driver.acquire(names, 'holder..1', ballotNow());
      link.setMode({ kind: 'pass' });
      expect(reply).not.toMatchObject({ nothingWritten: true });
      const seen = await steady.inspect(names);
      const other = await steady.acquire(names, 'another.1', ballotNow());
      const wasGranted = (seen as { holder: string | null }).holder === 'holder..1';
      expect(other.kind).toBe(wasGranted ? 'held' : 'accepted');
      await eventually(async () => {
        expect((await driver.release(names, 'holder..1', { granted: false })).kind).toBe(
          'released',
        );
      });
    }
  });

  it('with a query_timeout in the pool of the user is thrown away with the statement on it', async () => {
    const link = await linkTo();
    const url = new URL(server.url);
    url.port = String(link.port);
    const own = newPool({ connectionString: url.href, query_timeout: 200, max: 1 });
    const driver = await openDriver(own, 5_000);
    const names = newNames();
    link.setMode({ kind: 'hold', direction: 'replies' });
    expect((await driver.acquire(names, 'holder..1', ballotNow())).kind).toBe('failed');
    link.setMode({ kind: 'pass' });
    await eventually(async () => {
      expect((await driver.release(names, 'holder..1', { granted: false })).kind).toBe('released');
    });
    const status = await own.query('SELECT now() = statement_timestamp() AS fresh');
    expect(status.rows).toEqual([{ fresh: true }]);
  });
});

describe('a pool', () => {
  it('whose connections are all taken is waited for: the time in its line is no silence of the database', async () => {
    const small = newPool({ max: 1 });
    const patience: number[] = [];
    const timers: Timers = {
      ...systemEnvironment.timers,
      set: (callback, delayMs, isBackground) => {
        if (delayMs === SILENCE_LIMIT_MS) patience.push(delayMs);
        return systemEnvironment.timers.set(callback, delayMs, isBackground);
      },
    };
    const environment = { ...systemEnvironment, timers };
    const node = new PostgresLockNode(lockDatabase(small), { name: 'small' }, environment);
    const driver = await NodeDriver.open(closing(node), { silenceLimitMs: SILENCE_LIMIT_MS });
    await driver.join();
    const user = await small.connect();
    patience.length = 0;
    const reply = driver.acquire(newNames(), 'holder..1', ballotNow());
    await eventually(() => expect(small.waitingCount).toBe(1));
    expect(patience).toEqual([]);
    user.release();
    expect(await reply).toEqual({ kind: 'accepted' });
    expect(patience).toHaveLength(1);
  });

  it('whose connections are all taken keeps no service from its end', async () => {
    const small = newPool({ max: 1 });
    const driver = await openDriver(small, 300);
    const user = await small.connect();
    void driver.acquire(newNames(), 'holder..1', ballotNow());
    await expect(driver.node.close()).resolves.toBeUndefined();
    user.release();
  });

  it.each([true, false])(
    'in which somebody left a transaction open gives no lock that is not committed; the client knows of it: %s',
    async (knows) => {
      const small = newPool({ max: 1 });
      if (!knows)
        small.on('connect', (client) => Object.assign(client, { getTransactionStatus: undefined }));
      const [driver, other] = [await openDriver(small), await openDriver()];
      const user = await small.connect();
      await user.query('BEGIN');
      user.release();
      const names = newNames();
      expect(await driver.acquire(names, 'holder..1', ballotNow())).toEqual({ kind: 'accepted' });
      expect(await other.acquire(names, 'another.1', ballotNow())).toMatchObject({ kind: 'held' });
    },
  );
});

describe('the end of a node', () => {
  it('is the last of its timers, also where its join is answered meanwhile', async () => {
    const environment = new ManualEnvironment();
    const node = new PostgresLockNode(lockDatabase(server.pool), { name: 'ended' }, environment);
    const driver = await NodeDriver.open(node);
    const joined = driver.join();
    await node.close();
    expect(await joined).toMatchObject({ kind: 'joined' });
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('a database that lets this process write no more', () => {
  beforeAll(() =>
    server.pool.query(
      'CREATE ROLE app LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON redlock_lease, redlock_waiter, redlock_process, redlock_fence TO app',
    ),
  );

  it.each([
    [
      'is read only',
      (own: pg.Pool) => own.query('SET default_transaction_read_only = on'),
      (own: pg.Pool) => own.query('SET default_transaction_read_only = off'),
      'default_transaction_read_only',
    ],
    [
      'took its rights',
      () => server.pool.query('REVOKE UPDATE ON redlock_lease FROM app'),
      () => server.pool.query('GRANT UPDATE ON redlock_lease TO app'),
      'GRANT UPDATE ON redlock_lease',
    ],
  ])(
    'because it %s is not ready, and says why, until it does',
    async (_name, end, begin, reason) => {
      const connectionString = server.urlWith((url) => (url.username = 'app'));
      const own = newPool({ connectionString, max: 1 });
      const redlock = await open([postgresNode(own)]);
      await end(own);
      await expect(redlock.acquire('refused', { wait: 0 })).rejects.toMatchObject({
        code: 'QUORUM_UNAVAILABLE',
      });
      await eventually(() =>
        expect(redlock.status()).toMatchObject({
          ready: false,
          nodes: [{ state: 'refusing', reason: expect.stringContaining(reason) }],
        }),
      );
      await begin(own);
      expect(await redlock.ready(60_000)).toBe(true);
    },
  );
});

describe('what the database can not store', () => {
  const LONG = '漢'.repeat(1_000);

  it('is a mistake of its caller, and no outage', async () => {
    const events: string[] = [];
    const options = { onEvent: ({ type }: { type: string }) => void events.push(type) };
    const redlock = await open([postgresNode(server.pool)], options);
    for (const key of [LONG, 'a\0b'])
      await expect(redlock.acquire(key)).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(events).not.toContain('quorum-lost');
  });

  it('fails alone where it leaves with other requests', async () => {
    const driver = await openDriver();
    // Characters in no order, which compression makes no shorter.
    const random = seededRandom(1);
    const name = Array.from({ length: 3_000 }, () =>
      String.fromCodePoint(0x4e00 + Math.floor(random.fraction() * 20_000)),
    ).join('');
    const [one, two] = [newNames(), newNames()];
    const replies = await Promise.all([
      driver.acquire(one, 'holder..1', ballotNow()),
      driver.acquire(new NodeNames('lock:', [name]), 'holder..2', ballotNow()),
      driver.acquire(two, 'holder..3', ballotNow()),
    ]);
    expect(replies).toMatchObject([{ kind: 'accepted' }, { kind: 'failed' }, { kind: 'accepted' }]);
  });
});

describe('connections that lead to several databases', () => {
  it('give locks in the one that was joined, and say so elsewhere', async () => {
    await server.pool.query('CREATE DATABASE twin');
    const url = new URL(server.url);
    url.pathname = '/twin';
    const twin = newPool({ connectionString: url.href });
    await twin.query(postgresNode(twin).ddl());
    let turn = 0;
    const either = () => [server.pool, twin][(turn += 1) % 2]!;
    const alternating = {
      connect: () => either().connect(),
      query: (sql: string, values?: unknown[]) => either().query(sql, values),
    };
    const names = newNames();
    const driver = await openDriver(alternating as unknown as pg.Pool);
    const replies = [
      await driver.acquire(names, 'holder..1', ballotNow()),
      await driver.acquire(names, 'holder..1', ballotNow()),
    ];
    const refused = {
      kind: 'failed',
      nothingWritten: true,
      message: expect.stringContaining('than before'),
    };
    expect(replies).toEqual(
      expect.arrayContaining([{ kind: 'accepted' }, expect.objectContaining(refused)]),
    );
    expect((await driver.join()).kind === (await driver.join()).kind).toBe(false);
    const holders = [server.pool, twin].map((each) =>
      each.query('SELECT holder FROM redlock_lease WHERE resource = $1', [names.locks[0]]),
    );
    const held = (await Promise.all(holders)).flatMap(({ rows }) =>
      rows.map(({ holder }) => holder),
    );
    expect(held.filter((holder) => holder !== null)).toEqual(['holder..1']);
  });
});
