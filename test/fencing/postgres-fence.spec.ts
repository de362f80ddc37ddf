import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import knexModule from 'knex';
import type pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  drizzleFence,
  knexFence,
  postgresFence,
  type FenceEvent,
  type Fence,
} from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

describe('postgresFence', () => {
  const database = usePostgres(async (created) => {
    await created.query(postgresFence(created).ddl());
    await created.query(postgresFence(created).ddl());
    await created.query('CREATE TABLE seat (id text PRIMARY KEY, owner text)');
  });
  let pool: pg.Pool;
  let fence: Fence<pg.PoolClient>;
  let events: FenceEvent[];
  let count = 0;
  let key: string;

  beforeEach(async () => {
    ({ pool } = database);
    events = [];
    fence = postgresFence(pool, { onEvent: (event) => void events.push(event) });
    key = `seat:${(count += 1)}`;
    await pool.query('INSERT INTO seat (id) VALUES ($1)', [key]);
  });

  // No transaction may be left open by any test.
  afterEach(async () => {
    if (pool.idleCount !== pool.totalCount) throw new Error('a test left a connection checked out');
  });

  const token = (value: number, holder = `holder-${value}`): FencingToken =>
    new FencingToken(value, [key], holder);
  const take = (client: pg.PoolClient | pg.Pool, owner: string): Promise<unknown> =>
    client.query('UPDATE seat SET owner = $2 WHERE id = $1', [key, owner]);
  const owner = async (): Promise<string | null> =>
    (await pool.query('SELECT owner FROM seat WHERE id = $1', [key])).rows[0].owner;

  it('refuses a stale holder before its work runs, and says who is newer', async () => {
    await fence.claim(token(34, 'new'));
    let ran = false;
    const late = fence.transaction(token(33, 'old'), () => void (ran = true));
    await expect(late).rejects.toMatchObject({
      name: 'StaleTokenError',
      code: 'STALE_TOKEN',
      key,
      token: '33',
      currentToken: '34',
      currentHolder: 'new',
    });
    expect(ran).toBe(false);
  });

  it('rolls back when the work throws, and throws the same error', async () => {
    const own = new Error('no');
    const failing = fence.transaction(token(1), async (tx) => {
      await take(tx, 'ana');
      throw own;
    });
    await expect(failing).rejects.toBe(own);
    await expect(owner()).resolves.toBeNull();
  });

  it('rolls back when the work swallows a stale-token error, and compensates once, after the rollback', async () => {
    const compensated: unknown[] = [];
    const fence = postgresFence(pool, {
      onStale: async (error, context) =>
        void compensated.push(error.key, context.operation, await owner()),
    });
    const other = new FencingToken(5, [`${key}:other`], 'late');
    await fence.claim(new FencingToken(6, other.keys, 'newer'));
    const swallowing = fence.transaction(token(1), async (tx) => {
      await take(tx, 'ana');
      await fence.advance(tx, other).catch(() => undefined);
    });
    await expect(swallowing).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      token: '5',
      currentToken: '6',
    });
    await expect(owner()).resolves.toBeNull();
    expect(compensated).toEqual([`${key}:other`, 'transaction', null]);
  });

  it.each([
    ['an older number', 1, 'old'],
    ['the same number of another holder', 2, 'twin'],
  ])(
    'makes a user’s own transaction fail after the user swallows the error of %s',
    async (_name, value, holder) => {
      await fence.claim(token(2));
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        await expect(fence.advance(client, token(value, holder))).rejects.toMatchObject({
          code: 'STALE_TOKEN',
        });
        await expect(take(client, 'stale')).rejects.toMatchObject({ code: '25P02' });
        expect((await client.query('COMMIT')).command).toBe('ROLLBACK');
      } finally {
        client.release();
      }
      await expect(owner()).resolves.toBeNull();
    },
  );

  it('reports that PostgreSQL rolled back after the work swallowed the error of a statement', async () => {
    const swallowing = fence.transaction(token(1), async (tx) => {
      await take(tx, 'ana');
      await tx.query('SELECT nonsense').catch(() => undefined);
    });
    await expect(swallowing).rejects.toThrow(/rolled the transaction back/);
    await expect(owner()).resolves.toBeNull();
  });

  it('reports a refusal to the listener, and survives a compensation that fails', async () => {
    const events: FenceEvent[] = [];
    const fence = postgresFence(pool, {
      onEvent: (event) => void events.push(event),
      onStale: () => Promise.reject(new Error('refund failed')),
    });
    await fence.transaction(token(2), () => undefined);
    await expect(fence.claim(token(1))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(events).toMatchObject([
      { type: 'admitted', operation: 'transaction', token: '2', keys: [key] },
      { type: 'stale', operation: 'claim', token: '1', error: { currentToken: '2' } },
      { type: 'compensation-failed', error: { message: 'refund failed' } },
    ]);
  });

  it.each(['repeatable read', 'serializable'] as const)(
    'retries with the same token when %s makes PostgreSQL abort the transaction',
    async (isolationLevel) => {
      let runs = 0;
      await fence.transaction(
        token(1),
        async (tx) => {
          runs += 1;
          await tx.query('SELECT owner FROM seat WHERE id = $1', [key]);
          // A writer without a fence changes the row after this transaction's snapshot.
          if (runs === 1) await take(pool, 'foreign');
          await tx.query("UPDATE seat SET owner = coalesce(owner, '') || '+' WHERE id = $1", [key]);
        },
        { isolationLevel },
      );
      expect(runs).toBe(2);
      expect(events.map(({ type }) => type)).toEqual(['retried', 'admitted']);
      await expect(owner()).resolves.toBe('foreign+');
    },
  );

  it.each([
    ['a number', { code: 1020 }],
    ['a number that a wrapper kept', { meta: { code: '1213' } }],
    ['a SQLSTATE', { code: '40001' }],
    ['a code of Prisma', { code: 'P2034' }],
  ])(
    'does not run the work again for an error with %s that no database raised',
    async (_name, fields) => {
      let runs = 0;
      const failing = fence.transaction(token(1), () => {
        runs += 1;
        throw Object.assign(new Error('payment refused'), fields);
      });
      await expect(failing).rejects.toThrow('payment refused');
      expect(runs).toBe(1);
    },
  );

  it.each(['Drizzle', 'Knex'])(
    'does not take a key in a message of %s for a refusal',
    async (name) => {
      const forged = `account:redlock:stale:["${key}","999","x"]`;
      const pair = new FencingToken(5, [key, forged], 'h');
      const knex = knexModule({ client: 'pg', connection: database.url });
      try {
        const other = name === 'Knex' ? knexFence(knex) : drizzleFence(drizzle(pool), { sql });
        await fence.transaction(token(4), async () => {
          const waiting = other.transaction(pair, () => undefined, { lockTimeout: 20 });
          await expect(waiting).rejects.not.toMatchObject({ code: 'STALE_TOKEN' });
        });
        await fence.claim(new FencingToken(7, [forged], 'newer'));
        const stale = {
          code: 'STALE_TOKEN',
          key: forged,
          currentToken: '7',
          currentHolder: 'newer',
        };
        await expect(other.claim(pair)).rejects.toMatchObject(stale);
      } finally {
        await knex.destroy();
      }
    },
  );

  it('gives up after the given number of attempts, with the error of the database', async () => {
    let runs = 0;
    const hopeless = fence.transaction(
      token(1),
      async (tx) => {
        runs += 1;
        await tx.query('SELECT owner FROM seat WHERE id = $1', [key]);
        await take(pool, `foreign ${runs}`);
        await take(tx, 'ana');
      },
      { isolationLevel: 'repeatable read', attempts: 3 },
    );
    await expect(hopeless).rejects.toMatchObject({ code: '40001' });
    expect(runs).toBe(3);
  });

  it('does not wait for a paused holder longer than lockTimeout', async () => {
    const elsewhere = AsyncLocalStorage.snapshot();
    await fence.transaction(token(1), async () => {
      const newer = elsewhere(() =>
        fence.transaction(token(2), () => undefined, { lockTimeout: 50 }),
      );
      await expect(newer).rejects.toMatchObject({ code: '55P03' });
    });
  });

  it('lets a newer holder pass one that is frozen in its transaction, whose commit then fails', async () => {
    const elsewhere = AsyncLocalStorage.snapshot();
    const frozen = fence.transaction(
      token(1),
      async (tx) => {
        await take(tx, 'frozen');
        await elsewhere(() => fence.transaction(token(2), (newer) => take(newer, 'newer')));
      },
      { idleInTransactionTimeout: 100 },
    );
    await expect(frozen).rejects.toThrow(/terminat|idle-in-transaction|not queryable/i);
    await expect(owner()).resolves.toBe('newer');
  });

  it('writes nothing when the connection is lost in the middle, and does not retry', async () => {
    let runs = 0;
    const cut = fence.transaction(token(1), async (tx) => {
      runs += 1;
      await take(tx, 'half');
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
      await pool.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
      await take(tx, 'more');
    });
    await expect(cut).rejects.toThrow(/terminat|not queryable/i);
    expect(runs).toBe(1);
    await expect(owner()).resolves.toBeNull();
    await expect(fence.transaction(token(1), (tx) => take(tx, 'again'))).resolves.toBeDefined();
  });

  it('names the migration when the table is missing', async () => {
    const fence = postgresFence(pool, { table: 'no_such_fence' });
    const missing = expect.objectContaining({
      code: 'FENCED_USAGE',
      message: expect.stringContaining('CREATE TABLE IF NOT EXISTS no_such_fence'),
    });
    await expect(fence.transaction(token(1), () => undefined)).rejects.toEqual(missing);
    await expect(fence.claim(token(1))).rejects.toEqual(missing);
  });

  it('does not mistake another missing table for its own', async () => {
    const foreign = fence.transaction(token(1), (tx) => tx.query('SELECT * FROM no_such_table'));
    await expect(foreign).rejects.toMatchObject({ code: '42P01' });
  });

  it('is not confused by keys and holders that look like SQL or like its own refusal', async () => {
    const strange = [
      `a"]','b`,
      'redlock:stale:["x","9","y"]',
      "'; DROP TABLE seat; --",
      'сиденье 🎟',
      'trailing ',
    ];
    for (const name of strange) {
      await fence.claim(new FencingToken(2, [name], 'h"]'));
      await expect(fence.claim(new FencingToken(1, [name], 'old'))).rejects.toMatchObject({
        code: 'STALE_TOKEN',
        key: name,
        currentToken: '2',
        currentHolder: 'h"]',
      });
    }
    await fence.claim(new FencingToken(1, ['trailing'], 'x'));
  });

  describe('with several keys', () => {
    it('advances all keys or none', async () => {
      const keys = [`${key}:b`, `${key}:a`, `${key}:c`];
      await fence.claim(new FencingToken(9, [`${key}:c`], 'new'));
      await expect(
        fence.transaction(new FencingToken(5, keys, 'old'), () => undefined),
      ).rejects.toMatchObject({
        key: `${key}:c`,
        currentToken: '9',
      });
      await fence.transaction(new FencingToken(1, [`${key}:a`], 'first'), () => undefined);
    });

    it('never deadlocks, in whatever order the keys are given', async () => {
      const names = Array.from({ length: 8 }, (_none, index) => `${key}:${index}`);
      const before = await deadlocks();
      await Promise.allSettled(
        Array.from({ length: 200 }, (_none, index) => {
          const keys = [...names].sort(() => Math.random() - 0.5).slice(0, 4);
          return fence.transaction(new FencingToken(index + 1, keys, `holder-${index}`), (tx) =>
            tx.query('SELECT 1'),
          );
        }),
      );
      expect(events.filter(({ type }) => type === 'retried')).toEqual([]);
      expect(events.filter(({ type }) => type === 'admitted' || type === 'stale').length).toBe(200);
      await expect(deadlocks()).resolves.toBe(before);
    });

    const deadlocks = async (): Promise<string> =>
      (
        await pool.query(
          'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
        )
      ).rows[0].deadlocks;
  });
});
