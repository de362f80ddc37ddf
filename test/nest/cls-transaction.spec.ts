import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { inClsTransaction } from '../../lib/index.ts';
import { startFencedDatabase, type FencedDatabase } from './support/fenced-database.ts';
import type { Played } from './support/transactional-application.ts';

/** Jest can't load nestjs-cls, which is CommonJS, over a Nest of ES modules; node can. */
const isCommonJs = typeof require === 'function';

async function play(url: string): Promise<Record<string, Played>> {
  if (isCommonJs) {
    const { playTransactions } = await import('./support/transactional-application.ts');
    return playTransactions(url);
  }
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    './test/support/typescript-loader.mjs',
    'test/nest/support/transactional-process.ts',
    url,
  ]);
  return JSON.parse(stdout) as Record<string, Played>;
}

describe('@Fenced and @Transactional of nestjs-cls, on PostgreSQL', () => {
  let database: FencedDatabase;
  let played: Record<string, Played>;

  beforeAll(async () => {
    database = await startFencedDatabase('cls_transaction');
    played = await play(database.url);
  }, 120_000);
  afterAll(() => database?.stop());

  it('lock, begin, work, commit, unlock when @Fenced is above @Transactional', () => {
    expect(played['fencedAbove']).toEqual({
      outcome: 'resolved',
      steps: ['lock', 'BEGIN', 'work', 'COMMIT', 'unlock'],
      owner: 'ana',
    });
  });

  it.each([
    ['below @Transactional', 'fencedBelow', 'Seats.fencedBelow'],
    ['called in a transaction of its caller', 'callerInTransaction', 'Seats.fencedAbove'],
  ])('is refused, without lock or work, when it is %s', (_where, name, method) => {
    expect(played[name]).toEqual({
      outcome: 'FENCED_USAGE',
      message: expect.stringMatching(
        new RegExp(`^${method}: .*put @Fenced above @Transactional.*allowInTransaction: true`),
      ),
      steps: ['BEGIN', 'ROLLBACK'],
      owner: null,
    });
  });

  it('holds the lock around an independent transaction (REQUIRES_NEW) with allowInTransaction', () => {
    expect(played['callerOfIndependent']).toEqual({
      outcome: 'resolved',
      steps: ['BEGIN', 'lock', 'BEGIN', 'work', 'COMMIT', 'unlock', 'outer work', 'COMMIT'],
      owner: 'ana',
    });
  });

  it('joins inside the transaction the lock that is held around it', () => {
    expect(played['joining']).toEqual({
      outcome: 'resolved',
      steps: ['lock', 'BEGIN', 'work', 'COMMIT', 'unlock'],
      owner: 'ana',
    });
  });

  it('is released after the rollback', () => {
    expect(played['failing']).toEqual({
      outcome: 'Error',
      message: 'changed our mind',
      steps: ['lock', 'BEGIN', 'work', 'ROLLBACK', 'unlock'],
      owner: null,
    });
  });
});

describe('inClsTransaction', () => {
  const hosts = (active: readonly (string | undefined)[]) => ({
    getInstance: (name?: string) => ({ isTransactionActive: () => active.includes(name) }),
  });

  it('looks at the connections named, at the one without a name by default', () => {
    expect(inClsTransaction(hosts([undefined]))()).toBe(true);
    expect(inClsTransaction(hosts(['seats']))()).toBe(false);
    expect(inClsTransaction(hosts(['seats']), 'orders', 'seats')()).toBe(true);
    expect(inClsTransaction(hosts([undefined]), 'orders')()).toBe(false);
  });
});
