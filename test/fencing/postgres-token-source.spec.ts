import { describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence, postgresTokenSource } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

describe('postgresTokenSource', () => {
  const database = usePostgres((pool) => pool.query(postgresTokenSource(pool).ddl()), { max: 20 });
  const signal = new AbortController().signal;
  const issue = (keys: readonly string[], holder = 'h'): Promise<number> =>
    postgresTokenSource(database.pool).issue({ keys, holder, signal });

  it('counts from 1 for each key', async () => {
    await expect(issue(['count'])).resolves.toBe(1);
    await expect(issue(['count'])).resolves.toBe(2);
    await expect(issue(['other'])).resolves.toBe(1);
  });

  it('issues one number for a set, above all earlier numbers of each of its keys', async () => {
    for (let count = 0; count < 5; count += 1) await issue(['set:a']);
    await expect(issue(['set:b', 'set:a', 'set:new'])).resolves.toBe(6);
    await expect(issue(['set:b'])).resolves.toBe(7);
    await expect(issue(['set:new'])).resolves.toBe(7);
  });

  it('issues no number of a key twice, and lets issuers of overlapping sets wait for each other where transactions are serializable by default', async () => {
    const options = '-c default_transaction_isolation=serializable';
    const strict = new pg.Pool({ connectionString: database.url, max: 40, options });
    try {
      const source = postgresTokenSource(strict);
      const names = ['o:1', 'o:2', 'o:3', 'o:4'];
      const issuers = Array.from({ length: 100 }, async (_none, index) => {
        // Sets of one to four of them, all in turn.
        const keys = names.filter((_name, at) => ((index % 15) + 1) & (1 << at));
        return { keys, value: await source.issue({ keys, holder: `h${index}`, signal }) };
      });
      const issued = await Promise.all(issuers);
      for (const name of names) {
        const values = issued.flatMap(({ keys, value }) => (keys.includes(name) ? [value] : []));
        expect(new Set(values).size).toBe(values.length);
      }
    } finally {
      await strict.end();
    }
  });

  it('claims the fence in the same table, so that older holders are refused at once', async () => {
    const fence = postgresFence(database.pool);
    const older = new FencingToken(await issue(['seat'], 'older'), ['seat'], 'older');
    const newer = new FencingToken(await issue(['seat'], 'newer'), ['seat'], 'newer');
    await expect(fence.claim(older)).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      currentToken: '2',
      currentHolder: 'newer',
    });
    await fence.transaction(newer, () => undefined);
  });

  it('goes on above the numbers of the quorum in the same table', async () => {
    const fence = postgresFence(database.pool);
    const old = new FencingToken(Date.now() * 1_000, ['before'], 'old');
    await fence.claim(old);
    await expect(issue(['before'])).resolves.toBe(old.value + 1);
    await expect(issue(['before', 'new'])).resolves.toBe(old.value + 2);
    await expect(fence.claim(old)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('issues nothing for a lock that is lost', async () => {
    const lost = new Error('lost');
    const late = postgresTokenSource(database.pool).issue({
      keys: ['late'],
      holder: 'h',
      signal: AbortSignal.abort(lost),
    });
    await expect(late).rejects.toBe(lost);
    await expect(issue(['late'])).resolves.toBe(1);
  });
});
