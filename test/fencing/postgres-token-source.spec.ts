import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence, postgresTokenSource } from '../../lib/fencing/index.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { createPostgresDatabase, startPostgres } from '../support/databases/postgres-server.ts';

describe('postgresTokenSource', () => {
  let server: DatabaseServer;
  let pool: pg.Pool;

  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({
      connectionString: await createPostgresDatabase(server, `tokens_${Date.now()}_${process.pid}`),
      max: 20,
    });
    pool.on('error', () => undefined);
    await pool.query(postgresTokenSource(pool).ddl());
  }, 120_000);

  afterAll(async () => {
    await pool?.end();
    await server?.stop();
  });

  const signal = new AbortController().signal;
  const issue = (keys: readonly string[], holder = 'h'): Promise<number> =>
    postgresTokenSource(pool).issue({ keys, holder, signal });

  it('counts from 1 for each key', async () => {
    await expect(issue(['count'])).resolves.toBe(1);
    await expect(issue(['count'])).resolves.toBe(2);
    await expect(issue(['other'])).resolves.toBe(1);
  });

  it('never gives a number twice, and rises with the order of calls', async () => {
    const values = await Promise.all(Array.from({ length: 200 }, () => issue(['busy'])));
    expect(new Set(values).size).toBe(200);
    expect(Math.max(...values)).toBe(200);
  });

  it('gives a set one number above all earlier ones of each of its keys, and raises all', async () => {
    for (let count = 0; count < 5; count += 1) await issue(['set:a']);
    await expect(issue(['set:b', 'set:a', 'set:new'])).resolves.toBe(6);
    await expect(issue(['set:b'])).resolves.toBe(7);
    await expect(issue(['set:new'])).resolves.toBe(7);
  });

  it('does not deadlock on overlapping sets, and stays above per key', async () => {
    const names = ['o:1', 'o:2', 'o:3', 'o:4'];
    const issued = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const keys = names.filter(() => Math.random() < 0.7);
        return keys.length === 0 ? undefined : { keys, value: await issue(keys) };
      }),
    );
    for (const name of names) {
      const values = issued.flatMap((each) => (each?.keys.includes(name) ? [each.value] : []));
      expect(new Set(values).size).toBe(values.length);
    }
  });

  it('has claimed the fence in the same table already: older holders are refused at once', async () => {
    const fence = postgresFence(pool);
    const older = new FencingToken(await issue(['seat'], 'older'), ['seat'], 'older');
    const newer = new FencingToken(await issue(['seat'], 'newer'), ['seat'], 'newer');
    await expect(fence.claim(older)).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      currentToken: '2',
      currentHolder: 'newer',
    });
    await fence.transaction(newer, () => undefined);
  });

  it('issues nothing for a lock that is lost', async () => {
    const lost = new Error('lost');
    const late = postgresTokenSource(pool).issue({
      keys: ['late'],
      holder: 'h',
      signal: AbortSignal.abort(lost),
    });
    await expect(late).rejects.toBe(lost);
    await expect(issue(['late'])).resolves.toBe(1);
  });

  it('names the migration when the table is missing', async () => {
    const source = postgresTokenSource(pool, { table: 'nowhere' });
    await expect(source.issue({ keys: ['a'], holder: 'h', signal })).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      message: expect.stringContaining('CREATE TABLE IF NOT EXISTS nowhere'),
    });
  });
});
