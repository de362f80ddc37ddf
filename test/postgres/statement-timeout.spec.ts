import { describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import type { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { ballotNow, type NodeDriver } from '../support/node-driver.ts';
import { useRedlocks } from '../support/use-redlocks.ts';
import { newNames, useOwnServer } from './own-server.ts';

const server = useOwnServer();
const { newPool, openDriver } = server;
const open = useRedlocks();

/** All that locks keep: a statement that was ended must have changed nothing of it. */
async function rows(): Promise<unknown> {
  const sqlOf = (name: string) =>
    `SELECT '${name}' AS name, jsonb_agg(to_jsonb(row) ORDER BY to_jsonb(row)) AS all FROM redlock_${name} AS row`;
  const tables = ['lease', 'waiter', 'process', 'fence'].map(sqlOf);
  return (await server.pool.query(tables.join(' UNION ALL '))).rows;
}

/** Writes to a table take an hour behind each of their rows, so that a limit ends the statement when it has written. */
async function stalled<Result>(write: string, work: () => Promise<Result>): Promise<Result> {
  const [, table = ''] = write.split(' ON ');
  await server.pool.query(`
    CREATE OR REPLACE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NULL; END $$;
    CREATE TRIGGER stall AFTER ${write} FOR EACH ROW EXECUTE FUNCTION stall()`);
  try {
    return await work();
  } finally {
    await server.pool.query(`DROP TRIGGER stall ON ${table}`);
  }
}

/** Reads of a table take until the end of that work. */
async function unreadable<Result>(work: () => Promise<Result>): Promise<Result> {
  const other = await newPool({ max: 1 }).connect();
  await other.query('BEGIN; LOCK TABLE redlock_lease IN ACCESS EXCLUSIVE MODE');
  try {
    return await work();
  } finally {
    await other.query('ROLLBACK');
    other.release();
  }
}

/** What only this work has a limit for, on the one connection of the pool. */
async function limited<Result>(pool: pg.Pool, work: () => Promise<Result>): Promise<Result> {
  await pool.query('SET statement_timeout = 100');
  const result = await work();
  await pool.query('SET statement_timeout = 0');
  return result;
}

const MINE = 'holder..1';
const held = async (driver: NodeDriver, names: NodeNames, ballot: number) => {
  await driver.acquire(names, MINE, ballot);
};
const heldAndWaitedFor = async (driver: NodeDriver, names: NodeNames, ballot: number) => {
  await held(driver, names, ballot);
  await driver.wait(names, 'waiter..', 'turns:waiter..');
};
const free = async () => undefined;

/** What happens to one key: what it was before, the statement that is ended, the work behind which that is, and the answer without. */
const cases: readonly (readonly [
  name: string,
  behind: string,
  before: (driver: NodeDriver, names: NodeNames, ballot: number) => Promise<unknown>,
  ask: (driver: NodeDriver, names: NodeNames, ballot: number) => Promise<unknown>,
  answer: object,
])[] = [
  [
    'a vote',
    'INSERT ON redlock_lease',
    free,
    (driver, names, ballot) => driver.acquire(names, MINE, ballot),
    { kind: 'accepted' },
  ],
  [
    'a vote',
    'INSERT ON redlock_fence',
    free,
    (driver, names, ballot) => driver.acquire(names, MINE, ballot),
    { kind: 'accepted' },
  ],
  [
    'a vote',
    'UPDATE ON redlock_lease',
    free,
    (driver, names, ballot) => driver.acquire(names, MINE, ballot),
    { kind: 'accepted' },
  ],
  [
    'an extension',
    'UPDATE ON redlock_lease',
    held,
    (driver, names, ballot) => driver.extend(names, MINE, ballot),
    { kind: 'extended' },
  ],
  [
    'a release',
    'UPDATE ON redlock_lease',
    held,
    (driver, names) => driver.release(names, MINE),
    { kind: 'released', deleted: 1 },
  ],
  [
    'a release to the first in line',
    'DELETE ON redlock_waiter',
    heldAndWaitedFor,
    (driver, names) => driver.release(names, MINE),
    { kind: 'released', deleted: 1 },
  ],
  [
    'a place in line',
    'INSERT ON redlock_waiter',
    held,
    (driver, names) => driver.wait(names, 'waiter..', 'turns:waiter..'),
    { kind: 'waiting' },
  ],
  [
    'a revocation',
    'UPDATE ON redlock_lease',
    held,
    (driver, names) => driver.revoke(names, MINE),
    { kind: 'revoked', remainingMs: expect.any(Number) },
  ],
  [
    'a join',
    'INSERT OR UPDATE ON redlock_process',
    free,
    (driver) => driver.join(0, { configuration: '1 postgresql' }),
    { kind: 'joined' },
  ],
  [
    'a look',
    '',
    held,
    (driver, names) => driver.inspect(names),
    { kind: 'inspected', holder: MINE },
  ],
  [
    'a list',
    '',
    held,
    (driver, names) =>
      new Promise((resolve) => {
        const keysBegin = names.locks[0]!.slice('lock:'.length);
        driver.node.list({ keyPrefix: 'lock:', keysBegin, most: 5 }, resolve);
      }),
    { kind: 'listed', isComplete: true },
  ],
];

describe('a statement_timeout of the user', () => {
  it.each(cases)(
    'that ends %s (%s) leaves all as it was, is told, and the next try goes on',
    async (_name, write, before, ask, answer) => {
      const pool = newPool({ max: 1 });
      const driver = await openDriver(pool);
      const names = newNames();
      const ballot = ballotNow();
      await before(driver, names, ballot);
      const seen = await rows();
      const behind = (work: () => Promise<unknown>) =>
        write === '' ? unreadable(work) : stalled(write, work);
      const ended = await behind(() => limited(pool, () => ask(driver, names, ballot)));
      expect(ended).toMatchObject({
        kind: 'failed',
        reason: 'error',
        message: expect.stringContaining('statement timeout'),
      });
      expect(await rows()).toEqual(seen);
      expect(await ask(driver, names, ballot)).toMatchObject(answer);
      expect(driver.events).toEqual(['opened']);
    },
  );

  it('is an outage for who wants a lock, no loss for who has one, and over with the next statement', async () => {
    const pool = newPool({ max: 1 });
    const redlock = await open([postgresNode(pool)], { ttl: '10m', nodeTimeout: '1m' });
    const lock = await redlock.acquire('kept', { extend: false, ttl: '10m' });
    await stalled('UPDATE ON redlock_lease', () =>
      limited(pool, async () => {
        await expect(redlock.acquire('wanted', { wait: 0 })).rejects.toMatchObject({
          code: 'QUORUM_UNAVAILABLE',
          causes: [{ reason: 'error', message: expect.stringContaining('statement timeout') }],
        });
        await expect(lock.extend()).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
      }),
    );
    lock.ensure();
    await lock.extend();
    const wanted = await redlock.acquire('wanted', { wait: 0 });
    await Promise.all([lock.release(), wanted.release()]);
    expect(redlock.held().held).toEqual([]);
  });
});
