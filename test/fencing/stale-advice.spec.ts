import { expect, it } from '@jest/globals';
import Database from 'libsql';
import { sqliteFence } from '../../lib/fencing/index.ts';

const NOW = Date.now() * 1_000;
const [HOUR, DAY] = [3_600_000_000, 86_400_000_000];

/** The message of the refusal of `value`, with a row that `seen` left behind. */
async function messageOf(value: number, seen: number, maxAge?: '1h'): Promise<string> {
  const database = new Database(':memory:');
  const fence = sqliteFence(database, maxAge && { maxAge });
  database.exec(fence.ddl());
  await sqliteFence(database).claim({ keys: ['seat'], holder: 'newer', value: seen });
  const refused = fence.claim({ value, keys: ['seat'], holder: 'late' });
  return refused.then(
    () => 'admitted',
    (error: Error) => error.message,
  );
}

it.each([
  ['a newer holder came', NOW, NOW + 1, /a new lock/],
  ['a newer holder came whose clock is an hour ahead', NOW, NOW + HOUR, /a new lock/],
  ['its maxAge is over', NOW - 2 * HOUR, 1, /maxAge.*a new lock/],
  ['the number was issued twice', NOW, NOW, /same number.*token source/],
  ['the row is years ahead', NOW, NOW + 900 * DAY + HOUR, /900 days ahead.*repair the row/],
  ['this clock is years behind', NOW - 900 * DAY, NOW + 2 * DAY, /ahead.*repair the row/],
] as const)('a refusal tells what helps where %s', async (name, value, seen, advice) => {
  const maxAge = name.includes('maxAge') ? '1h' : undefined;
  const message = await messageOf(value, seen, maxAge);
  expect(message).toMatch(/^Stale fencing token \d+ for 'seat': the resource has seen \d+/);
  expect(message).toMatch(advice);
  expect(/a new lock/.test(message)).toBe(advice.source.includes('a new lock'));
});
