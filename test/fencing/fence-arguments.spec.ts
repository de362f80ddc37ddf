import { inspect } from 'node:util';
import { PGlite } from '@electric-sql/pglite';
import { describe, expect, it } from '@jest/globals';
import mysql from 'mysql2';
import { Client, Pool } from 'pg';
import * as fencing from '../../lib/fencing/index.ts';
import { RedlockConfigError } from '../../lib/index.ts';

const factories = fencing as unknown as Readonly<
  Record<string, (client: unknown, options?: unknown) => unknown>
>;
const NAMES = Object.keys(fencing).filter((name) => /^[a-z]\w+Fence$/.test(name));

function refusalOf(run: () => unknown): RedlockConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof RedlockConfigError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('a fence that is made with anything but its client', () => {
  it('is tried for all factories', () => expect(NAMES.length).toBe(11));

  it.each(
    NAMES.flatMap((name) => [
      [name, undefined] as const,
      [name, 'postgres://a:hunter2@b/c'] as const,
      [name, {}] as const,
    ]),
  )('%s refuses %j at once, and says what it needs', (name, client) => {
    const error = refusalOf(() => factories[name]!(client, { sql: { raw() {} } }));
    expect(error.option).toBe(name);
    expect(error.message).toMatch(/: it needs .{10,}/);
    expect(inspect(error)).not.toContain('hunter2');
  });

  it('names the Pool where there is a Client', () => {
    expect(refusalOf(() => factories['postgresFence']!(new Client())).message).toMatch(
      /a Pool of pg/,
    );
  });

  it('names the promise pool where there is one with callbacks', async () => {
    const pool = mysql.createPool({});
    expect(refusalOf(() => factories['mysqlFence']!(pool)).message).toMatch(/mysql2\/promise/);
    expect(() => factories['mysqlFence']!(pool.promise())).not.toThrow();
    pool.end();
  });
});

describe('a fence with an option that there is not', () => {
  it('refuses it, and names the one that was meant', async () => {
    const pool = new Pool();
    expect(refusalOf(() => factories['postgresFence']!(pool, { tabel: 'x' })).message).toMatch(
      /'tabel' can't be given: it is unknown \(did you mean 'table'\?\)/,
    );
    expect(refusalOf(() => factories['postgresFence']!(pool, 'x')).message).toMatch(
      /give an object/,
    );
    await pool.end();
    const database = new PGlite();
    expect(refusalOf(() => factories['pgliteFence']!(database, { prepared: true })).option).toBe(
      'prepared',
    );
    await database.close();
  });

  it('says what transaction needs where it gets no work', async () => {
    const database = new PGlite();
    const fence = fencing.pgliteFence(database);
    const token = { value: 1, keys: ['a'], holder: 'me' };
    const call = fence.transaction(token, undefined as never);
    await expect(call).rejects.toThrow(/needs the work to do, as a function/);
    await database.close();
  });
});
