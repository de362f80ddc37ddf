import { beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  postgresFence,
  postgresTokenSource,
  type FenceEvent,
  type Fence,
  type StaleContext,
} from '../../lib/fencing/index.ts';
import type { StaleTokenError } from '../../lib/core/errors.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { inPostgres, lockIsAwaited } from './support/hand-written-transactions.ts';

// pg hands out the same client object again and again: what one call leaves on it must not reach the next.

describe('fence.transaction and transactions of one’s own on one pool', () => {
  const database = usePostgres(
    async (created) => {
      await created.query(postgresFence(created).ddl());
      await created.query('CREATE TABLE seat (id text PRIMARY KEY, owner text)');
      elsewhere = new pg.Pool({ connectionString: database.url });
      return () => elsewhere.end();
    },
    { max: 2 },
  );
  let elsewhere: pg.Pool;
  let fence: Fence<pg.PoolClient>;
  let refused: { key: string; token: string; context: StaleContext }[];
  let events: FenceEvent[];
  let count = 0;
  let key: string;

  beforeEach(() => {
    key = `seat:${(count += 1)}`;
    refused = [];
    events = [];
    fence = postgresFence(database.pool, {
      onStale: (error: StaleTokenError, context) =>
        void refused.push({ key: error.key, token: error.token, context }),
      onEvent: (event) => void events.push(event),
    });
  });

  const token = (value: number, keys = [key]): FencingToken =>
    new FencingToken(value, keys, `holder-${value}`);
  const stale = expect.objectContaining({ code: 'STALE_TOKEN' });
  const advanceAlone = (value: number): Promise<void> =>
    inPostgres(database.pool, (client) => fence.advance(client, token(value)));

  it('reports the refusal of an advance on a client whose last fence.transaction was refused', async () => {
    await fence.claim(token(9));
    await expect(fence.transaction(token(5), () => undefined)).rejects.toEqual(stale);
    await expect(advanceAlone(6)).rejects.toEqual(stale);
    await advanceAlone(9);
    expect(refused.map((each) => [each.token, each.context.operation])).toEqual([
      ['5', 'transaction'],
      ['6', 'advance'],
    ]);
    expect(events.map((event) => [event.type, event.keys])).toEqual([
      ['admitted', [key]],
      ['stale', [key]],
      ['stale', [key]],
      ['admitted', [key]],
    ]);
  });

  it('rolls no holder back for a refusal that another call got on the client of its first try', async () => {
    const other = `${key}:other`;
    await fence.claim(token(9, [other]));
    let usedBefore: Promise<pg.PoolClient> | undefined;
    fence.observe(({ type }) => {
      if (type === 'retried') usedBefore ??= database.pool.connect();
    });
    let newest: Promise<unknown> | undefined;
    // PostgreSQL aborts the first try of the newest holder: an older one changed the row of the fence meanwhile.
    await inPostgres(elsewhere, async (client) => {
      await fence.advance(client, token(1));
      newest = fence.transaction(
        token(2),
        async (tx) => {
          const client = (await usedBefore)!;
          await client.query('BEGIN');
          await expect(fence.advance(client, token(5, [other]))).rejects.toEqual(stale);
          await client.query('ROLLBACK');
          client.release();
          await tx.query('INSERT INTO seat (id) VALUES ($1)', [key]);
          return 'done';
        },
        { isolationLevel: 'repeatable read' },
      );
      await lockIsAwaited(elsewhere);
    });
    await expect(newest).resolves.toBe('done');
    expect(refused).toEqual([
      { key: other, token: '5', context: { operation: 'advance', token: token(5, [other]) } },
    ]);
  });

  it('leaves nothing on the client when the transaction fails before its work', async () => {
    await inPostgres(elsewhere, async (client) => {
      await fence.advance(client, token(2));
      const waiting = fence.transaction(token(3), () => undefined, { lockTimeout: 20 });
      await expect(waiting).rejects.toMatchObject({ code: '55P03' });
    });
    await expect(advanceAlone(1)).rejects.toEqual(stale);
    expect(refused.map((each) => each.token)).toEqual(['1']);
  });

  // Behind the error of the server comes one of the driver, of the end of the connection.
  it.each(['error', 'end'])(
    'gives the error of work whose session was ended what ended it as its cause: after %s',
    async (event) => {
      const idle = fence.transaction(token(1), async (client) => {
        const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
        const ended = new Promise((resolve) => client.once(event, resolve));
        await elsewhere.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
        await ended;
        await client.query('SELECT 1');
      });
      await expect(idle).rejects.toMatchObject({
        message: expect.stringMatching(/not queryable|was closed/),
        cause: { code: '57P01' },
      });
    },
  );

  it('keeps the outcome of work that released the client of the fence', async () => {
    const released = fence.transaction(token(1), (client) => {
      client.release();
      return 'done';
    });
    await expect(released).resolves.toBe('done');
    const failed = fence.transaction(token(1), (client) => {
      client.release();
      throw new Error('own');
    });
    await expect(failed).rejects.toThrow('own');
  });

  it('throws the connection of a claim away whose session was ended, and keeps that of a refused one', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 });
    let connected = 0;
    pool.on('connect', () => void (connected += 1));
    try {
      const alone = postgresFence(pool);
      await alone.claim(token(2));
      await expect(alone.claim(token(1))).rejects.toEqual(stale);
      expect(connected).toBe(1);
      await inPostgres(elsewhere, async (client) => {
        await fence.advance(client, token(2));
        const waiting = alone.claim(token(3));
        waiting.catch(() => undefined);
        await lockIsAwaited(elsewhere);
        const ended = 'SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted';
        await elsewhere.query(ended);
        await expect(waiting).rejects.toMatchObject({ code: '57P01' });
      });
      await alone.claim(token(3));
      expect(connected).toBe(2);
    } finally {
      await pool.end();
    }
  });

  describe('on a connection whose last user left a transaction open', () => {
    const uses: Record<string, (alone: Fence<any>, pool: pg.Pool) => Promise<unknown>> = {
      claim: (alone) => alone.claim(token(5)),
      transaction: (alone) => alone.transaction(token(5), () => undefined),
      'an issue of postgresTokenSource': async (_alone, pool) => {
        const source = postgresTokenSource(pool);
        for (let value = 0; value < 5; value += 1)
          await source.issue({
            keys: [key],
            holder: 'holder-5',
            signal: new AbortController().signal,
          });
      },
    };
    const leftovers: Record<string, string[]> = {
      'with half of its writes': [`INSERT INTO seat (id) VALUES ('half')`],
      'after an error': ['SELECT 1 / 0'],
    };

    it.each(
      Object.keys(uses).flatMap((use) =>
        Object.keys(leftovers).map((left) => [use, left] as const),
      ),
    )('%s commits for itself %s', async (use, left) => {
      const pool = new pg.Pool({ connectionString: database.url, max: 1 });
      try {
        const client = await pool.connect();
        await client.query('BEGIN');
        for (const sql of leftovers[left]!) await client.query(sql).catch(() => undefined);
        client.release();
        await uses[use]!(postgresFence(pool), pool);
        await expect(fence.claim(token(4))).rejects.toMatchObject({ currentToken: '5' });
        const { rows } = await pool.query(`SELECT 1 FROM seat WHERE id = 'half'`);
        expect(rows).toEqual([]);
      } finally {
        await pool.end();
      }
    });

    it('claim is no success when its begin was on its way', async () => {
      const pool = new pg.Pool({ connectionString: database.url, max: 1 });
      try {
        const client = await pool.connect();
        const begun = client.query('BEGIN');
        client.release();
        const used = uses['claim']!(postgresFence(pool), pool);
        await expect(used).rejects.toThrow(/Nothing was committed/);
        await begun;
        await expect(fence.claim(token(4))).resolves.toBeUndefined();
        await expect(uses['claim']!(postgresFence(pool), pool)).resolves.not.toThrow();
      } finally {
        await pool.end();
      }
    });
  });
});
