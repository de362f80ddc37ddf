import type { PGlite, Transaction } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FencingToken, pgliteFence, type Fence } from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import {
  ACCOUNT_DDL,
  AGED,
  fencedAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
  type OpenStore,
} from './support/account-stores.ts';
import { FORGET } from './support/forget.ts';

// A spec of its own: this package is an ES module only, which the suite in CommonJS cannot load.

// Starting it takes seconds, so all tests share one.
let pglite: PGlite;
beforeAll(async () => {
  pglite = await startPglite();
  await pglite.exec(`${ACCOUNT_DDL.postgresql}; ${pgliteFence(pglite).ddl()}`);
});
afterAll(() => pglite.close());

function openPglite(): OpenStore {
  const store = fencedAccounts(pgliteFence(pglite, AGED), {
    read: async (resource) => firstText((await pglite.query(SELECT.postgresql, [resource])).rows),
    write: (transaction, resource, text) => transaction.query(UPSERT.postgresql, [resource, text]),
    forget: (before) => pglite.query(FORGET.postgresql, [before]),
  });
  return { store, close: () => undefined };
}

const NOW = Date.now() * 1_000;
const token = new FencingToken(NOW, ['outside'], 'a');
const refusal = expect.objectContaining({
  code: 'FENCED_USAGE',
  message: expect.stringContaining('outside a transaction'),
});

describe('on PGlite', () => {
  let fence: Fence<Transaction>;
  beforeAll(() => void (fence = pgliteFence(pglite)));

  it('advance works in a transaction of the user and is refused outside', async () => {
    let ended = pglite as unknown as Transaction;
    await pglite.transaction((transaction) => fence.advance((ended = transaction), token));
    for (const outside of [pglite as unknown as Transaction, ended])
      await expect(fence.advance(outside, token)).rejects.toEqual(refusal);
  });
});

itConforms('PGlite, with the SQL of PostgreSQL,', openPglite);
