import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, expect, it, jest } from '@jest/globals';
import pg from 'pg';
import { Fenced, FencingToken, fencingToken } from '../../lib/index.ts';
import { Fence, postgresFence } from '../../lib/fencing/index.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

@Injectable()
class Seats {
  constructor(
    private readonly fence: Fence<pg.PoolClient>,
    private readonly pool: pg.Pool,
  ) {}

  @Fenced('seat:{0}', { claim: true })
  async book(_id: string, where: 'pool' | 'tx', @FencingToken() token = fencingToken()) {
    await this.pool.query('SELECT 1');
    await this.fence.transaction(token, async (tx) => {
      await (where === 'tx' ? tx : this.pool).query('SELECT 1');
      // A claim for another key takes a connection for the fence itself.
      await this.fence.claim(createFencingToken(`other:${String(token)}`));
    });
  }
}

const database = usePostgres(async (pool) => {
  await pool.query(postgresFence(pool).ddl());
});
afterEach(closeAll);

it('a query beside the open transaction is a warning, once per process, which names the lock', async () => {
  const { pool } = database;
  const warn = jest.spyOn(process, 'emitWarning').mockReturnValue();
  const module = await startModule(
    { providers: [Seats, { provide: pg.Pool, useValue: pool }] },
    { fence: postgresFence(pool) },
  );
  const seats = module.get(Seats);
  await seats.book('1', 'tx');
  expect(warn).not.toHaveBeenCalled();
  await seats.book('1', 'pool');
  await seats.book('1', 'pool');
  expect(warn.mock.calls).toEqual([
    [expect.stringMatching(/^A query was sent to the pool .*"seat:1".*Use tx\.$/), 'FenceWarning'],
  ]);
});
