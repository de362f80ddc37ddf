import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence, type Fence } from '../../lib/fencing/index.ts';

const token = { value: 1, keys: ['account'], holder: 'me' };

// Options that are ignored would promise what does not hold; a level stands in SQL, where it could be any statement.
const WRONG: readonly unknown[] = [
  { isolationLevel: 'serializable; drop table account; --' },
  { isolationLevel: 'SERIALIZABLE' },
  { isolationLevel: ['serializable'] },
  { isolationLevel: null },
  { isolation: 'serializable' },
  { attempts: null },
  { lockTimeout: '1; drop table account; --' },
  { keys: 'account' },
  { keys: null },
  null,
  ['account'],
  'serializable',
];

/** Of the code and message with which it rejects. */
async function refusalOf(call: Promise<unknown>): Promise<Error & { code: string }> {
  const error = await call.then(
    () => new Error('it was accepted'),
    (reason: unknown) => reason,
  );
  return error as Error & { code: string };
}

const REFUSED = /^(REDLOCK_CONFIG|FENCED_USAGE)$/;

async function refusesAll(fence: Fence): Promise<void> {
  let runs = 0;
  for (const options of WRONG) {
    const call = fence.transaction(token, () => (runs += 1), options as never);
    const error = await refusalOf(call);
    expect(error.code).toMatch(REFUSED);
  }
  for (const options of [{ key: ['account'] }, { isolationLevel: 'serializable' }, null, 'x']) {
    const error = await refusalOf(fence.claim(token, options as never));
    expect(error.code).toBe('REDLOCK_CONFIG');
  }
  expect(runs).toBe(0);
  // Nothing was written: an older holder is the first one.
  const older = { ...token, value: 1, holder: 'older' };
  await expect(
    fence.transaction(older, () => 'admitted', { attempts: 1, isolationLevel: undefined }),
  ).resolves.toBe('admitted');
}

describe('over SQLite,', () => {
  const database = new Database(':memory:');
  const fence = sqliteFence(database);
  beforeAll(() => void database.exec(fence.ddl()));
  afterAll(() => void database.close());

  it('unknown options and wrong values are refused', async () => {
    await refusesAll(fence);
    expect(() => fence.advanceSync(database, token, { key: [] } as never)).toThrow(
      /it is unknown; fence\.advance takes keys/,
    );
    await expect(fence.transaction(token, () => 0, { lockTimeout: '1s' })).rejects.toThrow(
      /SQLite has one isolation level/,
    );
  });
});
