import { afterAll, expect, it } from '@jest/globals';
import Database from 'libsql';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  mysqlFence,
  pgliteFence,
  postgresFence,
  sqliteFence,
  type Fence,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { itKeepsTransactionPromises } from './support/transaction-promises.ts';

const sqlite = new Database(':memory:');
sqlite.exec(sqliteFence(sqlite).ddl());
afterAll(() => void sqlite.close());
const postgres = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
const mariadb = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));

itKeepsTransactionPromises('PostgreSQL', (options) => postgresFence(postgres.pool, options));
itKeepsTransactionPromises('MariaDB', (options) => mysqlFence(mariadb.pool, options));
itKeepsTransactionPromises('SQLite', (options) => sqliteFence(sqlite, options));

it.each(['SQLite', 'PGlite'])(
  'refuses other keys and holders inside where %s has one connection, which would wait for itself',
  async (name) => {
    const lite = name === 'PGlite' ? await startPglite() : undefined;
    const make = (): Fence => (lite ? pgliteFence(lite) : sqliteFence(sqlite));
    const [fence, second] = [make(), make()];
    await lite?.exec(fence.ddl());
    const [outer, other] = ['a', 'b'].map((holder) => new FencingToken(1, [holder], holder));
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
