import { expect, it } from '@jest/globals';
import { isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { SQLITE_DRIVERS } from './support/sqlite-drivers.ts';
import { itKeepsSqlitePromises } from './support/sqlite-promises.ts';

for (const [name, Driver] of Object.entries(SQLITE_DRIVERS)) itKeepsSqlitePromises(name, Driver);

it.each([
  [{ code: 'ERR_SQLITE_ERROR', errcode: 5 }, true],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 773 }, true],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 19 }, false],
  [{ code: 'SQLITE_BUSY_RECOVERY' }, true],
  [{ code: 'SQLITE_CONSTRAINT' }, false],
  [{ code: '40001', severity: 'ERROR' }, true],
  [{ errno: 1020, sqlState: 'HY000' }, true],
  [{ cause: { code: '40P01', severity: 'ERROR' } }, true],
  // Errors that no database raised.
  [{ code: 'EIO', errno: 5 }, false],
  [{ code: 1020 }, false],
  [{ meta: { code: '1213' } }, false],
  [{ code: '40001' }, false],
  [{ code: 'P2034' }, false],
])('tells from %j whether the work may run again: %j', (fields, isRetryable) => {
  expect(isRetryableSqlError(Object.assign(new Error('no'), fields))).toBe(isRetryable);
});
