import { describe, expect, it } from '@jest/globals';
import type { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { eventually } from '../support/eventually.ts';
import { ballotNow, TTL_MS } from '../support/node-driver.ts';
import { newNames, useOwnServer } from './own-server.ts';

const server = useOwnServer();
const { newPool, openDriver } = server;

/** The rest of a lease in ms, as the database counts it. */
async function leftOf(names: NodeNames): Promise<number> {
  const sql =
    'SELECT extract(epoch FROM valid_until - clock_timestamp()) * 1000 AS ms FROM redlock_lease WHERE resource = $1';
  const { rows } = await server.pool.query(sql, [names.locks[0]]);
  return Number(rows[0].ms);
}

describe('a transaction of somebody else that holds a row', () => {
  const LEASE = "INSERT INTO redlock_lease (resource, token) VALUES ('$', 1)";
  const cases: readonly (readonly [
    name: string,
    before: string,
    held: string,
    end: 'COMMIT' | 'ROLLBACK',
  ])[] = [
    ['locked', LEASE, "SELECT FROM redlock_lease WHERE resource = '$' FOR UPDATE", 'COMMIT'],
    [
      'shared',
      LEASE,
      "SELECT FROM redlock_lease WHERE resource = '$' FOR KEY SHARE; SELECT FROM redlock_lease WHERE resource = '$' FOR SHARE",
      'COMMIT',
    ],
    [
      'changed and rolled back',
      LEASE,
      "UPDATE redlock_lease SET token = token + 1 WHERE resource = '$'",
      'ROLLBACK',
    ],
    ['changed', LEASE, "UPDATE redlock_lease SET token = token + 1 WHERE resource = '$'", 'COMMIT'],
    ['deleted', LEASE, "DELETE FROM redlock_lease WHERE resource = '$'", 'COMMIT'],
    ['the first of its key and rolled back', 'SELECT 1', LEASE, 'ROLLBACK'],
    [
      'in the fence',
      "INSERT INTO redlock_fence VALUES ('#', 1, 'before')",
      "SELECT FROM redlock_fence WHERE resource = '#' FOR UPDATE",
      'COMMIT',
    ],
  ];

  it.each(cases)(
    '%s: the lock is busy until it ends, and what is granted then has all of its time',
    async (_name, before, held, end) => {
      const names = newNames();
      const [lock = ''] = names.locks;
      const sqlOf = (text: string) => text.replaceAll('$', lock).replaceAll('#', lock.slice(5));
      const driver = await openDriver(server.pool, 2_000);
      const other = await newPool({ max: 1 }).connect();
      await other.query(sqlOf(before));
      await other.query(`BEGIN; ${sqlOf(held)}`);
      const refused = await driver.acquire(names, 'holder..1', ballotNow());
      expect(['held', 'failed']).toContain(refused.kind);
      await other.query(end);
      other.release();
      expect(await driver.acquire(names, 'holder..1', ballotNow())).toEqual({ kind: 'accepted' });
      expect(await leftOf(names)).toBeGreaterThan(TTL_MS / 2);
    },
  );

  it('a batch goes on for the other keys in it', async () => {
    const [held, free] = [newNames(), newNames()];
    const driver = await openDriver();
    await driver.acquire(held, 'before..1', ballotNow());
    await driver.release(held, 'before..1');
    const other = await newPool({ max: 1 }).connect();
    await other.query('BEGIN');
    await other.query('SELECT FROM redlock_lease WHERE resource = $1 FOR UPDATE', [held.locks[0]]);
    const replies = await Promise.all([
      driver.acquire(held, 'holder..1', ballotNow()),
      driver.acquire(free, 'holder..2', ballotNow()),
    ]);
    expect(replies).toMatchObject([{ kind: 'held' }, { kind: 'accepted' }]);
    await other.query('COMMIT');
    other.release();
  });

  it('for a moment is waited for by those who have a lock, and by those in line', async () => {
    const driver = await openDriver();
    const ballot = ballotNow();
    const asked: readonly ((names: NodeNames) => Promise<unknown>)[] = [
      (names) => driver.extend(names, 'holder..1', ballot),
      (names) => driver.wait(names, 'waiter..', 'turns:waiter..'),
      (names) => driver.revoke(names, 'holder..1'),
      (names) => driver.release(names, 'revoked:{"by":"a test"}'),
    ];
    const names = newNames();
    await driver.acquire(names, 'holder..1', ballot);
    const other = await newPool({ max: 1 }).connect();
    const waits =
      "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%redlock_v1(%'";
    const replies: unknown[] = [];
    for (const ask of asked) {
      await other.query('BEGIN');
      await other.query('SELECT FROM redlock_lease WHERE resource = $1 FOR UPDATE', [
        ...names.locks,
      ]);
      const reply = ask(names);
      await eventually(async () => expect((await server.pool.query(waits)).rowCount).toBe(1));
      await other.query('COMMIT');
      replies.push(await reply);
    }
    other.release();
    expect(replies).toMatchObject([
      { kind: 'extended' },
      { kind: 'waiting' },
      { kind: 'revoked', remainingMs: expect.any(Number) },
      { kind: 'released', deleted: 1 },
    ]);
  });

  it('a batch renews and releases the other locks in it, and fails for that one alone', async () => {
    const [stuck, other, third] = [newNames(), newNames(), newNames()];
    const driver = await openDriver(server.pool, 2_000);
    const ballot = ballotNow();
    for (const names of [stuck, other, third]) await driver.acquire(names, 'holder..1', ballot);
    const user = await newPool({ max: 1 }).connect();
    await user.query('BEGIN');
    await user.query('SELECT FROM redlock_lease WHERE resource = $1 FOR UPDATE', [stuck.locks[0]]);
    const replies = await Promise.all([
      driver.extend(stuck, 'holder..1', ballot),
      driver.extend(other, 'holder..1', ballot),
      driver.release(third, 'holder..1'),
      driver.release(stuck, 'holder..1'),
    ]);
    await user.query('COMMIT');
    user.release();
    expect(replies).toMatchObject([
      { kind: 'failed', message: 'another transaction has its row' },
      { kind: 'extended' },
      { kind: 'released', deleted: 1 },
      { kind: 'failed' },
    ]);
    expect(await driver.release(stuck, 'holder..1')).toMatchObject({ deleted: 1 });
  });
});
