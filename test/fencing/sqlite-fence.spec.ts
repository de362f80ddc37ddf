import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { isLastingError, isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { Gate } from '../nest/support/critical-section.ts';
import { sqliteOrms, type FencedClient } from './support/clients.ts';
import { SQLITE_DRIVERS, type OpenSqlite } from './support/sqlite-drivers.ts';
import { itKeepsSqlitePromises } from './support/sqlite-promises.ts';

for (const [name, Driver] of Object.entries(SQLITE_DRIVERS)) itKeepsSqlitePromises(name, Driver);

describe.each(Object.entries(sqliteOrms(SQLITE_DRIVERS.libsql!)))('%s', (_name, open) => {
  let folder: string;
  let reader: OpenSqlite;
  let client: FencedClient;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'fenced-lock-orm-'));
    const file = join(folder, 'data.db');
    reader = new SQLITE_DRIVERS.libsql!(file, { timeout: 0 });
    reader.exec(`CREATE TABLE note (text TEXT); ${sqliteFence(reader).ddl()}`);
    client = await open(file);
  });
  afterEach(async () => {
    await client.close();
    reader.close();
    rmSync(folder, { recursive: true });
  });
  const notes = () =>
    reader
      .prepare('SELECT text FROM note')
      .all()
      .map(({ text }) => text);
  const write = (value: number, then?: () => Promise<unknown>) =>
    client.fence.transaction(
      createFencingToken(`seat:${value}`),
      async (tx) => {
        await client.execute(tx, `INSERT INTO note VALUES ('${value}')`);
        await then?.();
      },
      { attempts: 1 },
    );

  it('has rolled back, and goes on, when the file was busy at the commit', async () => {
    await client.run(async (tx) => client.execute(tx, 'PRAGMA busy_timeout = 1'));
    reader.exec('BEGIN; SELECT * FROM note');
    await expect(write(1)).rejects.toThrow(/database is locked/);
    reader.exec('COMMIT');
    await write(2);
    expect(notes()).toEqual(['2']);
  });

  it('refuses a claim in the work, which would wait for it, or be rolled back with it', async () => {
    const claim = () => client.fence.claim(createFencingToken('other'));
    await expect(write(1, claim)).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(notes()).toEqual([]);
  });

  it('has committed what has ended, whatever comes of a transaction that was begun meanwhile', async () => {
    const gate = new Gate();
    const first = write(1, () => gate.opened);
    const second = write(2, () => Promise.reject(new Error('own')));
    gate.open();
    await first;
    expect(notes()).toEqual(['1']);
    await expect(second).rejects.toThrow('own');
    expect(notes()).toEqual(['1']);
  });
});

it.each([
  [{ code: 'ERR_SQLITE_ERROR', errcode: 5 }, 'may run again'],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 773 }, 'may run again'],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 19 }, 'fails again'],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 1032 }, 'fails again'],
  [{ code: 'SQLITE_BUSY_RECOVERY' }, 'may run again'],
  [{ code: 'SQLITE_CONSTRAINT' }, 'fails again'],
  [{ code: '40001', severity: 'ERROR' }, 'may run again'],
  [{ errno: 1020, sqlState: 'HY000' }, 'may run again'],
  [{ cause: { code: '40P01', severity: 'ERROR' } }, 'may run again'],
  // Errors that no database raised.
  [{ code: 'EIO', errno: 5 }, 'is unknown'],
  [{ code: 1020 }, 'is unknown'],
  [{ meta: { code: '1213' } }, 'is unknown'],
  [{ code: '40001' }, 'is unknown'],
  [{ code: 'P2034' }, 'is unknown'],
])('tells from %j that the work %s', (fields, expected) => {
  const error = Object.assign(new Error('no'), fields);
  expect(isRetryableSqlError(error)).toBe(expected === 'may run again');
  expect(isLastingError(error)).toBe(expected === 'fails again');
});
