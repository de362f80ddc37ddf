import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence, type Fence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

describe('postgresFence with prepared statements', () => {
  const database = usePostgres((created) =>
    created.query('CREATE TABLE seat (id text PRIMARY KEY, owner text)'),
  );
  let pool: pg.Pool;
  let count = 0;
  let key: string;

  // One connection, so that what is prepared there is all that was prepared.
  beforeEach(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 1 });
    key = `seat:${(count += 1)}`;
    await pool.query(postgresFence(pool).ddl());
    await pool.query('INSERT INTO seat (id) VALUES ($1)', [key]);
  });

  afterEach(() => pool.end());

  const WRITE = 'UPDATE seat SET owner = $2 WHERE id = $1 RETURNING owner';
  const token = (value: number, holder = `holder-${value}`): FencingToken =>
    new FencingToken(value, [key], holder);
  const prepared = async (): Promise<{ name: string; statement: string }[]> =>
    (await pool.query('SELECT name, statement FROM pg_prepared_statements ORDER BY prepare_time'))
      .rows;
  const owner = async (): Promise<string | null> =>
    (await pool.query('SELECT owner FROM seat WHERE id = $1', [key])).rows[0].owner;

  const write = (fence: Fence<pg.PoolClient>, value: number): Promise<unknown> =>
    fence.transaction(token(value), (tx) => tx.query(WRITE, [key, `owner ${value}`]));

  /** Every operation three times; the second and third must find what the first prepared. */
  async function useAll(fence: Fence<pg.PoolClient>): Promise<void> {
    for (const value of [1, 2, 3]) {
      await fence.claim(token(value));
      await fence.transaction(token(value), (tx) => tx.query('SELECT $1::text', ['theirs']), {
        lockTimeout: value * 1_000,
      });
      await write(fence, value);
    }
  }

  it('prepares each of its own texts once per connection, and no text of the application', async () => {
    await useAll(postgresFence(pool, { prepared: true }));
    const statements = await prepared();
    expect(statements.map(({ statement }) => statement)).toEqual([
      expect.stringMatching(/^INSERT.*txid_current\(\) AS text\) AS transaction$/s),
    ]);
    for (const { name } of statements) expect(name).toMatch(/^redlock_fence_[\w-]{43}$/);
    await expect(owner()).resolves.toBe('owner 3');
  });

  it.each([{}, { prepared: false }, { prepared: undefined }])(
    'prepares nothing with %j',
    async (options) => {
      await useAll(postgresFence(pool, options as { prepared?: boolean }));
      await expect(prepared()).resolves.toEqual([]);
      await expect(owner()).resolves.toBe('owner 3');
    },
  );

  it.each(['claim', 'transaction'] as const)(
    'loses one call, not the connection for good, when it was reset behind its back: %s',
    async (operation) => {
      const fence = postgresFence(pool, { prepared: true });
      const use = {
        claim: () => fence.claim(token(1)),
        transaction: () => fence.transaction(token(1), () => undefined),
      }[operation];
      await use();
      await pool.query('DISCARD ALL');
      await expect(use()).rejects.toMatchObject({ code: '26000' });
      await use();
    },
  );

  // PostgreSQL plans a prepared statement for its values five times before it may keep one plan for all.
  it('refuses a stale token in every operation, with the details, whichever plan PostgreSQL uses', async () => {
    const fence = postgresFence(pool, { prepared: true });
    for (let value = 1; value <= 12; value += 1) {
      await fence.claim(token(value));
      await write(fence, value);
    }
    for (let attempt = 0; attempt < 3; attempt += 1) {
      for (const [late, holder] of [
        [11, 'old'],
        [12, 'twin'],
      ] as const) {
        const refusal = {
          code: 'STALE_TOKEN',
          key,
          token: String(late),
          currentToken: '12',
          currentHolder: 'holder-12',
        };
        const stale = token(late, holder);
        await expect(fence.claim(stale)).rejects.toMatchObject(refusal);
        await expect(fence.transaction(stale, () => undefined)).rejects.toMatchObject(refusal);
      }
    }
    await expect(owner()).resolves.toBe('owner 12');
  });
});
