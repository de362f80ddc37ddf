import { expect, it } from '@jest/globals';
import { isLastingError, isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { SQLITE_DRIVERS } from './support/sqlite-drivers.ts';
import { itKeepsSqlitePromises } from './support/sqlite-promises.ts';

for (const [name, Driver] of Object.entries(SQLITE_DRIVERS)) itKeepsSqlitePromises(name, Driver);

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
