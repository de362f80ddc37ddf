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
  usePostgres((pool) => {
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

  it('claims other keys as it does outside', async () => {
    const fence = fences['PostgreSQL']!;
    const other = new FencingToken(5, ['other'], 'a');
    await fence.transaction(new FencingToken(4, ['this'], 'b'), () => fence.claim(other));
    await expect(fence.claim(new FencingToken(4, ['other'], 'c'))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
  });
});
