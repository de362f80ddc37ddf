import type { PGlite, Transaction } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FencingToken, pgliteFence, type PostgresFence } from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import {
  ACCOUNT_DDL,
  fencedAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
  type OpenStore,
} from './support/account-stores.ts';

// A spec of its own: this package is an ES module only, which the suite in CommonJS cannot load.

// Starting it takes seconds, so all tests share one.
let pglite: PGlite;
beforeAll(async () => {
  pglite = await startPglite();
  await pglite.exec(`${ACCOUNT_DDL.postgresql}; ${pgliteFence(pglite).ddl()}`);
});
afterAll(() => pglite.close());

function openPglite(): OpenStore {
  const store = fencedAccounts(pgliteFence(pglite), {
    read: async (resource) => firstText((await pglite.query(SELECT.postgresql, [resource])).rows),
    write: (transaction, resource, text) => transaction.query(UPSERT.postgresql, [resource, text]),
  });
  return { store, close: () => undefined };
}

// A table with the token of a counter is not pruned.
const NOW = Date.now() * 1_000;
const token = new FencingToken(NOW, ['outside'], 'a');
const refusal = expect.objectContaining({
  code: 'FENCED_USAGE',
  message: expect.stringContaining('outside a transaction'),
});

describe('on PGlite', () => {
  let fence: PostgresFence<Transaction>;
  beforeAll(() => void (fence = pgliteFence(pglite)));

  it('advance works in a transaction of the user and is refused outside', async () => {
    let ended = pglite as unknown as Transaction;
    await pglite.transaction((transaction) => fence.advance((ended = transaction), token));
    for (const outside of [pglite as unknown as Transaction, ended])
      await expect(fence.advance(outside, token)).rejects.toEqual(refusal);
  });

  it('statement checks the token and writes', async () => {
    await pglite.exec('CREATE TABLE seat (owner text)');
    const insert = 'INSERT INTO seat VALUES ($1) RETURNING owner';
    const [older, newer] = [NOW, NOW + 1].map((value) => new FencingToken(value, ['seat'], 'h'));
    await expect(fence.statement(newer, insert, ['ana'])).resolves.toEqual([{ owner: 'ana' }]);
    await expect(fence.statement(older, insert, ['bob'])).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      currentToken: String(NOW + 1),
    });
    expect((await pglite.query('SELECT * FROM seat')).rows).toHaveLength(1);
  });
});

itConforms('PGlite, with the SQL of PostgreSQL,', openPglite);
