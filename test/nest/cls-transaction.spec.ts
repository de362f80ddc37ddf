import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { inClsTransaction } from '../../lib/index.ts';

/** Steps in each method of the application, and how its call ends. */
const PLAYED = {
  fencedAbove: ['lock', 'BEGIN', 'work', 'COMMIT', 'unlock', 'resolved'],
  // Refused, without lock or work.
  fencedBelow: ['BEGIN', 'ROLLBACK', 'FENCED_USAGE Seats.fencedBelow'],
  callerInTransaction: ['BEGIN', 'ROLLBACK', 'FENCED_USAGE Seats.fencedAbove'],
  callerOfIndependent: [
    'BEGIN',
    'lock',
    'BEGIN',
    'work',
    'COMMIT',
    'unlock',
    'outer work',
    'COMMIT',
    'resolved',
  ],
  joining: ['lock', 'BEGIN', 'work', 'COMMIT', 'unlock', 'resolved'],
  failing: ['lock', 'BEGIN', 'ROLLBACK', 'unlock', 'changed our mind'],
};

it('@Fenced is held around @Transactional of nestjs-cls, and refused inside it unless allowInTransaction says so', async () => {
  const printed = await printedBy('transactional-application.ts', ...Object.keys(PLAYED));
  expect(printed).toEqual(PLAYED);
});

/** Jest can't load nestjs-cls, which is CommonJS, over a Nest of ES modules; node can. */
async function printedBy(program: string, ...args: readonly string[]): Promise<unknown> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    './test/support/typescript-loader.mjs',
    `test/nest/support/${program}`,
    ...args,
  ]);
  return JSON.parse(stdout);
}

it('a provider behind a Proxy of nestjs-cls runs its methods under their locks', async () => {
  expect(await printedBy('proxied-application.ts')).toEqual([['basket:1', '1'], 'LOCK_BUSY']);
});

it('inClsTransaction looks at the connections named, at the one without a name by default', () => {
  const hosts = (active: readonly (string | undefined)[]) => ({
    getInstance: (name?: string) => ({ isTransactionActive: () => active.includes(name) }),
  });
  expect(inClsTransaction(hosts([undefined]))()).toBe(true);
  expect(inClsTransaction(hosts(['seats']))()).toBe(false);
  expect(inClsTransaction(hosts(['seats']), 'orders', 'seats')()).toBe(true);
  expect(inClsTransaction(hosts([undefined]), 'orders')()).toBe(false);
});
