import { once } from 'node:events';
import { beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  postgresFence,
  sqliteFence,
  type Fence,
  type FenceEvent,
} from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

describe('the fence inside its own transaction', () => {
  const events: FenceEvent[] = [];
  const onEvent = (event: FenceEvent): void => void events.push(event);
  const sqlite = new Database(':memory:');
  const fences: Record<string, Fence> = { SQLite: sqliteFence(sqlite, { onEvent }) };
  sqlite.exec(sqliteFence(sqlite).ddl());
  const database = usePostgres((pool) => {
    fences['PostgreSQL'] = postgresFence(pool, { onEvent });
    return pool.query(postgresFence(pool).ddl());
  });

  describe.each(['PostgreSQL', 'SQLite'])('on %s', (name) => {
    let count = 0;
    let fence: Fence;
    const token = (value: number, keys = [`${name}:${count}`]): FencingToken =>
      new FencingToken(value, keys, `holder-${value}`);

    beforeEach(() => {
      count += 1;
      events.length = 0;
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

    it('refuses a second transaction of the same holder, which would wait for the first indefinitely', async () => {
      const nested = fence.transaction(token(1), () => fence.transaction(token(1), () => 'ran'));
      await expect(nested).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringContaining("Use the enclosing transaction ('tx')"),
      });
    });

    it('reports a refusal that another error of the work hides', async () => {
      const other = [`${name}:${count}:other`];
      await fence.claim(token(2, other));
      const hiding = fence.transaction(token(1), async (tx) => {
        await fence.advance(tx, token(1, other)).catch(() => undefined);
        throw new Error('own');
      });
      await expect(hiding).rejects.toThrow('own');
      expect(events.at(-1)).toMatchObject({ type: 'stale', error: { currentToken: '2' } });
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

  it('keeps the transaction open for work that returns a query which runs when it is awaited', async () => {
    const fence = fences['SQLite']!;
    const query = {
      // oxlint-disable-next-line unicorn/no-thenable
      then: (resolve: (open: boolean) => void) => resolve(sqlite.inTransaction),
    } as unknown as Promise<boolean>;
    const token = new FencingToken(1, ['lazy'], 'h');
    await expect(fence.transaction(token, () => query)).resolves.toBe(true);
    expect(sqlite.inTransaction).toBe(false);
  });

  it('claims other keys as it does outside', async () => {
    const fence = fences['PostgreSQL']!;
    const other = new FencingToken(5, ['other'], 'a');
    await fence.transaction(new FencingToken(4, ['this'], 'b'), () => fence.claim(other));
    await expect(fence.claim(new FencingToken(4, ['other'], 'c'))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
  });
});
