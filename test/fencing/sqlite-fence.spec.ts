import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { isLastingError, isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { sqliteOrms } from './support/clients.ts';
import { SQLITE_DRIVERS } from './support/sqlite-drivers.ts';
import { itKeepsSqlitePromises } from './support/sqlite-promises.ts';

for (const [name, Driver] of Object.entries(SQLITE_DRIVERS)) itKeepsSqlitePromises(name, Driver);

const Driver = SQLITE_DRIVERS.libsql!;
it.each(Object.entries(sqliteOrms(Driver)))(
  '%s has rolled back, and goes on, when the file was busy at the commit',
  async (_name, open) => {
    const folder = mkdtempSync(join(tmpdir(), 'fenced-lock-busy-'));
    const file = join(folder, 'data.db');
    const reader = new Driver(file, { timeout: 0 });
    reader.exec(`CREATE TABLE note (text TEXT); ${sqliteFence(reader).ddl()}`);
    const client = await open(file);
    try {
      await client.run(async (tx) => client.execute(tx, 'PRAGMA busy_timeout = 1'));
      const write = (value: number) =>
        client.fence.transaction(
          createFencingToken('seat', value),
          async (tx) => void (await client.execute(tx, `INSERT INTO note VALUES ('${value}')`)),
          { attempts: 1 },
        );
      reader.exec('BEGIN; SELECT * FROM note');
      await expect(write(1)).rejects.toThrow(/database is locked/);
      reader.exec('COMMIT');
      await write(2);
      const notes = reader.prepare('SELECT text FROM note').all();
      expect(notes.map(({ text }) => text)).toEqual(['2']);
    } finally {
      await client.close();
      reader.close();
      rmSync(folder, { recursive: true });
    }
  },
);

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
