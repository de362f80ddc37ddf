import { once } from 'node:events';
import { beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import type pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  pgliteFence,
  postgresFence,
  sqliteFence,
  type Fence,
  type FenceEvent,
  type FenceOptions,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { lockIsAwaited } from './support/hand-written-transactions.ts';

/** That of SQLite throws at once. */
const swallowed = async (advance: () => Promise<void>): Promise<void> => {
  try {
    await advance();
  } catch {
    // As work does that must not.
  }
};

describe('the fence inside its own transaction', () => {
  const events: FenceEvent[] = [];
  const onEvent = (event: FenceEvent): void => void events.push(event);
  const secondEvents: FenceEvent[] = [];
  const onSecond = (event: FenceEvent): void => void secondEvents.push(event);
  const compensated: unknown[] = [];
  const onStale: FenceOptions['onStale'] = ({ key, token }, context) =>
    void compensated.push([key, token, context.token.keys]);
  beforeEach(() => void compensated.splice(0));
  const sqlite = new Database(':memory:');
  const fences: Record<string, Fence> = { SQLite: sqliteFence(sqlite, { onEvent, onStale }) };
  /** Over the same databases, such as those that a service makes beside the module's. */
  const seconds: Record<string, Fence> = { SQLite: sqliteFence(sqlite, { onEvent: onSecond }) };
  sqlite.exec(sqliteFence(sqlite).ddl());
  const database = usePostgres((pool) => {
    fences['PostgreSQL'] = postgresFence(pool, { onEvent, onStale });
    seconds['PostgreSQL'] = postgresFence(pool, { onEvent: onSecond });
    return pool.query(postgresFence(pool).ddl());
  });

  describe.each(['PostgreSQL', 'SQLite'])('on %s', (name) => {
    let count = 0;
    let fence: Fence;
    const token = (value: number, keys = [`${name}:${count}`]): FencingToken =>
      new FencingToken(value, keys, `holder-${value}`);

    beforeEach(() => {
      count += 1;
      events.length = secondEvents.length = 0;
      fence = fences[name]!;
    });

    it('admits a second claim of the same token without another event', async () => {
      await expect(
        fence.transaction(token(1), async () => {
          await fence.claim(token(1));
          return 'done';
        }),
      ).resolves.toBe('done');
      expect(events).toMatchObject([{ type: 'admitted', operation: 'transaction' }]);
    });

    it('keeps what it claimed again when it rolls back, before the caller learns of it', async () => {
      const rolledBack = fence.transaction(token(5), async () => {
        await fence.claim(token(5));
        throw new Error('own');
      });
      await expect(rolledBack).rejects.toThrow('own');
      await expect(fence.transaction(token(4), () => 'late')).rejects.toMatchObject({
        code: 'STALE_TOKEN',
        currentToken: '5',
      });
      await expect(fence.transaction(token(5), () => 'again')).resolves.toBe('again');
    });

    it('keeps the error of work that claimed again when a newer holder came after the rollback', async () => {
      const claimed = new AbortController();
      const newest = once(claimed.signal, 'abort').then(() =>
        fence.transaction(token(6), () => 'newest'),
      );
      const newer = fence.transaction(token(5), async () => {
        await fence.claim(token(5));
        claimed.abort();
        if (name === 'PostgreSQL') await lockIsAwaited(database.pool);
        throw new Error('own');
      });
      await expect(newer).rejects.toThrow('own');
      await expect(newest).resolves.toBe('newest');
    });

    it('refuses a second transaction of the same holder, which would wait for the first indefinitely', async () => {
      const nested = fence.transaction(token(1), () => fence.transaction(token(1), () => 'ran'));
      await expect(nested).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringContaining("Use the enclosing transaction ('tx')"),
      });
    });

    it('refuses a claim of another holder of a key that it holds, which would wait for it indefinitely', async () => {
      const newer = new FencingToken(2, token(1).keys, 'newer');
      const inside = fence.transaction(token(1), () => fence.claim(newer));
      await expect(inside).rejects.toMatchObject({ code: 'FENCED_USAGE', keys: token(1).keys });
      await fence.claim(newer);
    });

    it('is one with a second fence over the same table: that covers and refuses the same', async () => {
      const second = seconds[name]!;
      await fence.transaction(token(1), async () => {
        await second.claim(token(1));
        const nested = second.transaction(token(1), () => 'ran');
        await expect(nested).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      });
      expect(secondEvents).toEqual([]);
    });

    it('rolls back for a refusal by a second fence that the work swallows, and both report it', async () => {
      const second = seconds[name]!;
      const other = [`${name}:${count}:other`];
      await second.claim(token(2, other));
      secondEvents.length = 0;
      const swallowing = fence.transaction(token(1), async (tx) => {
        await swallowed(() => second.advance(tx, token(1, other)));
      });
      await expect(swallowing).rejects.toMatchObject({ code: 'STALE_TOKEN', key: other[0] });
      const stale = { type: 'stale', keys: other, token: '1' };
      expect([events.at(-1), secondEvents]).toMatchObject([stale, [stale]]);
      // What a later user of the connection does has nothing to do with it.
      await fence.transaction(token(3), () => undefined);
    });

    it('reports a refusal that another error of the work hides', async () => {
      const other = [`${name}:${count}:other`];
      await fence.claim(token(2, other));
      const hiding = fence.transaction(token(1), async (tx) => {
        await swallowed(() => fence.advance(tx, token(1, other)));
        throw new Error('own');
      });
      await expect(hiding).rejects.toThrow('own');
      expect(events.at(-1)).toMatchObject({ type: 'stale', error: { currentToken: '2' } });
    });

    it('compensates for the token that advance refused, not for the one of the transaction', async () => {
      const other = [`${name}:${count}:other`];
      await fence.claim(token(9, other));
      const swallowing = fence.transaction(token(5), async (tx) => {
        await swallowed(() => fence.advance(tx, token(7, other)));
      });
      await expect(swallowing).rejects.toMatchObject({ code: 'STALE_TOKEN', token: '7' });
      expect(compensated).toEqual([[other[0], '7', other]]);
      expect(events.at(-1)).toMatchObject({ type: 'stale', keys: other, token: '7' });
    });

    it('forgets a refusal with the attempt that the database aborted', async () => {
      const other = [`${name}:${count}:other`];
      await fence.claim(token(9, other));
      let runs = 0;
      const repeated = fence.transaction(token(5), async (tx) => {
        if ((runs += 1) > 1) return 'done';
        await swallowed(() => fence.advance(tx, token(7, other)));
        throw Object.assign(new Error('aborted'), { code: '40001', severity: 'ERROR' });
      });
      await expect(repeated).resolves.toBe('done');
    });

    it('claims again when the transaction has ended', async () => {
      let later: Promise<void> | undefined;
      const ended = new AbortController();
      await fence.transaction(token(1), async () => {
        later = once(ended.signal, 'abort').then(() => fence.claim(token(1)));
      });
      await fence.claim(token(2));
      ended.abort();
      await expect(later).rejects.toMatchObject({ code: 'STALE_TOKEN', currentToken: '2' });
    });
  });

  it('reports the refusal of an own transaction on a connection on which its transaction was refused', async () => {
    const fence = fences['PostgreSQL']!;
    const [older, newer] = [1, 2].map((value) => new FencingToken(value, ['reused'], `h${value}`));
    await fence.claim(newer);
    const clients: unknown[] = [];
    database.pool.on('acquire', (client) => void clients.push(client));
    await expect(fence.transaction(older, () => undefined)).rejects.toThrow('Stale');
    events.length = 0;
    const client = await database.pool.connect();
    await client.query('BEGIN');
    await expect(fence.advance(client, older)).rejects.toThrow('Stale');
    await client.query('ROLLBACK');
    client.release();
    expect(clients).toEqual([client, client]);
    expect(events).toMatchObject([{ type: 'stale', operation: 'advance' }]);
  });

  it('reports the refusal of another holder inside once, for that one', async () => {
    const fence = fences['PostgreSQL']!;
    const [outer, inner] = ['around', 'within'].map((key) => new FencingToken(5, [key], key));
    await fence.claim(new FencingToken(9, inner!.keys, 'newer'));
    events.length = 0;
    const nested = fence.transaction(outer!, () => fence.transaction(inner!, () => 'ran'));
    await expect(nested).rejects.toMatchObject({ code: 'STALE_TOKEN', key: 'within' });
    expect(compensated).toEqual([['within', '5', ['within']]]);
    expect(events).toMatchObject([{ type: 'stale', keys: ['within'] }]);
  });

  it('covers for each transaction around it the keys that this one holds', async () => {
    const fence = fences['PostgreSQL']!;
    const [outer, inner] = ['outer', 'inner'].map((key) => new FencingToken(5, [key], 'h'));
    const rolledBack = fence.transaction(outer!, async () => {
      await fence.transaction(inner!, () =>
        fence.claim(new FencingToken(5, ['inner', 'outer'], 'h')),
      );
      throw new Error('own');
    });
    await expect(rolledBack).rejects.toThrow('own');
    const late = new FencingToken(4, ['outer'], 'late');
    await expect(fence.claim(late)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('is refused as stale, not as aborted, when a statement follows a refusal that was swallowed', async () => {
    const fence = fences['PostgreSQL'] as Fence<pg.PoolClient>;
    const [around, within] = ['follows', 'refused'].map((key) => new FencingToken(5, [key], key));
    await fence.claim(new FencingToken(9, within!.keys, 'newer'));
    const going = fence.transaction(around!, async (tx) => {
      await fence.advance(tx, within).catch(() => undefined);
      await tx.query('SELECT 1');
    });
    await expect(going).rejects.toMatchObject({ code: 'STALE_TOKEN', key: 'refused' });
  });

  it('claims again before the next attempt of work that the database aborted', async () => {
    const fence = fences['PostgreSQL']!;
    const late: unknown[] = [];
    const stop = fence.observe(({ type }) => {
      const older = new FencingToken(4, ['aborted'], 'late');
      if (type === 'retried') late.push(fence.claim(older).catch((error) => error.code));
    });
    let runs = 0;
    await fence.transaction(new FencingToken(5, ['aborted'], 'h'), async () => {
      runs += 1;
      if (runs > 1) return;
      await fence.claim(new FencingToken(5, ['aborted'], 'h'));
      throw Object.assign(new Error('aborted'), { code: '40001', severity: 'ERROR' });
    });
    stop();
    await expect(Promise.all(late)).resolves.toEqual(['STALE_TOKEN']);
  });

  it('says that claims could not be made again', async () => {
    const broken = { connect: () => Promise.reject(new Error('no connection')) };
    const pool = new Proxy(database.pool, {
      get: (target, name) => {
        if (name === 'query' && isDown) return broken.connect;
        const value = Reflect.get(target, isDown ? '' : name);
        return typeof value === 'function' ? value.bind(target) : (value ?? broken.connect);
      },
    });
    let isDown = false;
    const fence = postgresFence(pool);
    const token = new FencingToken(5, ['down'], 'h');
    const failing = fence.transaction(token, async () => {
      await fence.claim(token);
      isDown = true;
      throw new Error('own');
    });
    await expect(failing).rejects.toMatchObject({
      message: expect.stringMatching(/could not be made again/),
      errors: [{ message: 'own' }, { message: 'no connection' }],
    });
  });

  it.each(['SQLite', 'PGlite'])(
    'refuses other keys and holders inside where %s has one connection, which would wait for itself',
    async (name) => {
      const lite = name === 'PGlite' ? await startPglite() : undefined;
      const fence: Fence = lite ? pgliteFence(lite) : fences['SQLite']!;
      await lite?.exec(fence.ddl());
      const [outer, other] = ['a', 'b'].map((holder) => new FencingToken(1, [holder], holder));
      const second = lite ? pgliteFence(lite) : sqliteFence(sqlite);
      const uses = [fence, second].flatMap((each) => [
        () => each.claim(other),
        () => each.transaction(other, () => undefined),
      ]);
      await fence.transaction(outer, async (tx) => {
        for (const use of uses)
          await expect(use()).rejects.toMatchObject({ code: 'FENCED_USAGE', keys: ['b'] });
        await fence.advance(tx, other);
      });
      for (const use of uses) await use();
      await lite?.close();
    },
  );
});
