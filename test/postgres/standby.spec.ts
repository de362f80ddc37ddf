import assert from 'node:assert/strict';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { startPostgres } from '../support/databases/postgres-server.ts';
import { eventually } from '../support/eventually.ts';
import { ballotNow, NodeDriver } from '../support/node-driver.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';
import { newNames } from './own-server.ts';

// A primary whose commits wait for a standby, which is promoted while the primary still runs: the network parted them.

const closing = useClosing();
const open = useRedlocks();
let primary: DatabaseServer;
let standby: DatabaseServer;
const pools: pg.Pool[] = [];
const pool = (settings: pg.PoolConfig) => {
  const made = new pg.Pool(settings);
  made.on('error', () => undefined);
  pools.push(made);
  return made;
};
let old: pg.Pool;
let promoted: pg.Pool;
/** An address, behind which the primary is, and later the standby. */
let address: pg.Pool;
let isMoved = false;

beforeAll(async () => {
  primary = await startPostgres();
  old = pool({ connectionString: primary.url });
  await old.query(postgresNode(old).ddl());
  await old.query(
    "CREATE TABLE seat (id text PRIMARY KEY, customer text); INSERT INTO seat VALUES ('1A')",
  );
  standby = await primary.standby!();
  promoted = pool({ connectionString: standby.url });
  await old.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
  await old.query('SELECT pg_reload_conf()');
  await eventually(async () => {
    const { rows } = await old.query('SELECT sync_state FROM pg_stat_replication');
    assert.equal(rows[0]?.sync_state, 'sync');
  });
  address = {
    connect: () => (isMoved ? promoted : old).connect(),
    query: () => undefined,
  } as unknown as pg.Pool;
}, 180_000);

afterAll(async () => {
  // The commits of the primary wait for ever.
  await primary?.crash!();
  await Promise.all(pools.map((each) => each.end()));
  await Promise.all([primary?.stop(), standby?.stop()]);
});

it('a standby that is promoted knows what was granted, and a holder that the lost primary leaves behind is told in time', async () => {
  const [ana, bob, late] = [
    await open([postgresNode(address)], { ttl: '10m', nodeTimeout: '10s' }),
    await open([postgresNode(address)], { ttl: '10m', nodeTimeout: '10s' }),
    await open([postgresNode(old)], { ttl: '2s' }),
  ];
  const driver = await NodeDriver.open(closing(postgresNode(address)));
  await driver.join(0, { configuration: '1 postgresql' });
  const names = newNames();
  const ballot = ballotNow();
  expect(await driver.acquire(names, 'holder..1', ballot)).toEqual({ kind: 'accepted' });
  await driver.release(names, 'holder..1');
  const kept = await ana.acquire('kept');
  const left = await late.acquire('left');

  await promoted.query('SELECT pg_promote()');
  isMoved = true;

  // What was granted is there: its holder goes on, and others stay out; numbers grow.
  await eventually(() => kept.extend());
  await expect(bob.acquire('kept', { wait: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
  await kept.release();
  const next = await bob.acquire('kept');
  expect(next.token.value).toBeGreaterThan(kept.token.value);
  await eventually(async () =>
    expect(await driver.acquire(names, 'holder..2', ballot - 1)).toMatchObject({ kind: 'stale' }),
  );

  // Who still asks the lost primary gets nothing that counts, and has lost its lock before another one gets that.
  await expect(late.acquire('other', { wait: 0 })).rejects.toMatchObject({
    code: 'QUORUM_UNAVAILABLE',
  });
  const taken = await bob.acquire('left', { wait: '60s' });
  expect(() => left.ensure()).toThrow(
    expect.objectContaining({ code: 'LOCK_LOST', reason: 'expired' }),
  );
  expect(taken.token.value).toBeGreaterThan(left.token.value);
  const write = (client: pg.PoolClient) =>
    client.query("UPDATE seat SET customer = 'late' WHERE id = '1A'");
  await expect(postgresFence(promoted).transaction(left.token, write)).rejects.toMatchObject({
    code: 'STALE_TOKEN',
  });
  await Promise.all([next.release(), taken.release()]);
});
