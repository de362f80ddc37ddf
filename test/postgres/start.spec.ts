import { describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import { postgresNode } from '../../lib/postgres/index.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useClosing } from '../support/use-redlocks.ts';
import { useOwnServer } from './own-server.ts';

const server = useOwnServer();
const { newPool } = server;
const closing = useClosing();

describe('the start', () => {
  const findingsOf = async (over: pg.Pool) => {
    const driver = await NodeDriver.open(closing(postgresNode(over)));
    const facts = await driver.examine();
    return facts.kind === 'facts' ? facts.findings!.map(({ message }) => message) : [];
  };

  it('finds nothing wrong with tables as ddl() makes them', async () => {
    expect(await findingsOf(server.pool)).toEqual([]);
  });

  it('names the isolation level that locks can not have, and every command refuses it', async () => {
    const strict = newPool({ options: '-c default_transaction_isolation=serializable' });
    expect(await findingsOf(strict)).toEqual([expect.stringContaining('read committed')]);
    const driver = await NodeDriver.open(closing(postgresNode(strict)));
    expect(await driver.join()).toMatchObject({
      kind: 'failed',
      message: expect.stringContaining('read committed'),
    });
  });

  it('names connections that can not write', async () => {
    const reader = newPool({ options: '-c default_transaction_read_only=on' });
    expect(await findingsOf(reader)).toEqual([
      expect.stringContaining('default_transaction_read_only'),
    ]);
  });

  it('is possible while other processes run the same SQL', async () => {
    await server.pool.query('CREATE DATABASE fresh');
    const url = new URL(server.url);
    url.pathname = '/fresh';
    const fresh = newPool({ connectionString: url.href });
    const ddl = postgresNode(fresh).ddl();
    await Promise.all(Array.from({ length: 6 }, () => fresh.query(ddl)));
    await Promise.all(Array.from({ length: 6 }, () => fresh.query(ddl)));
    expect(await findingsOf(fresh)).toEqual([]);
  });

  it('names a function that the role may not run', async () => {
    await server.pool.query(
      'CREATE ROLE idle LOGIN; GRANT ALL ON redlock_lease, redlock_waiter, redlock_process, redlock_fence TO idle; REVOKE EXECUTE ON FUNCTION redlock_v1_wait FROM PUBLIC',
    );
    const url = new URL(server.url);
    url.username = 'idle';
    const idle = newPool({ connectionString: url.href });
    expect(await findingsOf(idle)).toEqual([expect.stringContaining('GRANT EXECUTE')]);
    await server.pool.query('GRANT EXECUTE ON FUNCTION redlock_v1_wait TO PUBLIC');
  });

  it('says how to make tables and functions that are missing', async () => {
    await server.pool.query('CREATE DATABASE empty');
    const url = new URL(server.url);
    url.pathname = '/empty';
    const empty = newPool({ connectionString: url.href });
    expect(await findingsOf(empty)).toEqual([expect.stringContaining('ddl()')]);
  });

  it('names the rights that the role lacks, also at the fence', async () => {
    await server.pool.query(
      'CREATE ROLE reader LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON redlock_lease, redlock_waiter, redlock_process TO reader; GRANT SELECT, INSERT ON redlock_fence TO reader',
    );
    const url = new URL(server.url);
    url.username = 'reader';
    const reader = newPool({ connectionString: url.href });
    expect(await findingsOf(reader)).toEqual([
      expect.stringContaining('GRANT UPDATE ON redlock_fence TO'),
    ]);
  });

  it('refuses an UNLOGGED table, which a crash empties', async () => {
    await server.pool.query('ALTER TABLE redlock_lease SET UNLOGGED');
    expect(await findingsOf(server.pool)).toEqual([expect.stringContaining('UNLOGGED')]);
    await server.pool.query('ALTER TABLE redlock_lease SET LOGGED');
  });
});
