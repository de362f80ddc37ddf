import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  postgresFence,
  sqliteFence,
  type Fence,
  type FenceEvent,
} from '../../lib/fencing/index.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { createPostgresDatabase, startPostgres } from '../support/databases/postgres-server.ts';

describe('work inside a fence transaction that asks the fence again', () => {
  const events: FenceEvent[] = [];
  const onEvent = (event: FenceEvent): void => void events.push(event);
  let server: DatabaseServer;
  let pool: pg.Pool;
  const fences: Record<string, Fence> = {};

  beforeAll(async () => {
    server = await startPostgres();
    const name = `fence_context_${Date.now()}_${process.pid}`;
    pool = new pg.Pool({ connectionString: await createPostgresDatabase(server, name) });
    pool.on('error', () => undefined);
    const database = new Database(':memory:');
    fences['PostgreSQL'] = postgresFence(pool, { onEvent });
    fences['SQLite'] = sqliteFence(database, { onEvent });
    await pool.query(fences['PostgreSQL'].ddl());
    database.exec(fences['SQLite'].ddl());
  }, 120_000);

  afterAll(async () => {
    await pool?.end();
    await server?.stop();
  });

  describe.each(['PostgreSQL', 'SQLite'])('on %s', (name) => {
    let count = 0;
    const token = (value: number, keys = [`${name}:${count}`]): FencingToken =>
      new FencingToken(value, keys, `holder-${value}`);

    it('need not claim the same token: it is there, and nobody newer can pass', async () => {
      count += 1;
      events.length = 0;
      const fence = fences[name]!;
      await expect(
        fence.transaction(token(1), async () => {
          await fence.claim(token(1));
          return 'done';
        }),
      ).resolves.toBe('done');
      expect(events).toMatchObject([{ type: 'admitted', operation: 'transaction' }]);
    });

    it('is refused a second transaction of the same holder, which would wait for the first for ever', async () => {
      count += 1;
      const fence = fences[name]!;
      const nested = fence.transaction(token(1), () => fence.transaction(token(1), () => 'ran'));
      await expect(nested).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringContaining("Use the enclosing transaction ('tx')"),
      });
    });

    it('claims again once the transaction is over', async () => {
      count += 1;
      const fence = fences[name]!;
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

  it('claims other keys as ever', async () => {
    const fence = fences['PostgreSQL']!;
    const other = new FencingToken(5, ['other'], 'a');
    await fence.transaction(new FencingToken(4, ['this'], 'b'), () => fence.claim(other));
    await expect(fence.claim(new FencingToken(4, ['other'], 'c'))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
  });
});
