import type { PGlite, Transaction } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';
import {
  FencingToken,
  mikroOrmFence,
  pgliteFence,
  type PostgresFence,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import {
  ACCOUNT_DDL,
  createPostgresAccounts,
  fencedAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
  type Account,
  type OpenStore,
} from './support/account-stores.ts';

// A spec of its own: these packages are ES modules only, which the suite in CommonJS cannot load.

const accounts = new EntitySchema<Account>({
  name: 'Account',
  tableName: 'account',
  properties: { resource: { type: 'text', primary: true }, text: { type: 'text' } },
});

async function openMikroOrm(url: string): Promise<OpenStore> {
  const pool = { min: 0, max: 30 };
  const orm = await MikroORM.init({ clientUrl: url, entities: [accounts], pool });
  const store = fencedAccounts(mikroOrmFence(orm.em), {
    read: async (resource) => (await orm.em.fork().findOne(accounts, { resource }))?.text ?? null,
    write: (entityManager, resource, text) => entityManager.upsert(accounts, { resource, text }),
  });
  return { store, close: () => orm.close() };
}

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

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  itConforms('MikroORM', () => openMikroOrm(database.url));

  it('MikroORM: advance works in a transaction of the user and is refused outside', async () => {
    const orm = await MikroORM.init({ clientUrl: database.url, entities: [accounts] });
    try {
      const fence = mikroOrmFence(orm.em.fork());
      await orm.em.fork().transactional((entityManager) => fence.advance(entityManager, token));
      await expect(fence.advance(orm.em.fork(), token)).rejects.toEqual(refusal);
    } finally {
      await orm.close();
    }
  });

  it.each([
    [[], true],
    [['redlock_fence'], false],
  ])(
    'MikroORM: its schema generator drops the table unless skipTables names it: %j',
    async (skipTables, drops) => {
      const orm = await MikroORM.init({
        clientUrl: database.url,
        entities: [accounts],
        schemaGenerator: { skipTables },
      });
      try {
        const sql = await orm.schema.getUpdateSchemaSQL();
        expect(/drop table[^;]*redlock_fence/i.test(sql)).toBe(drops);
      } finally {
        await orm.close();
      }
    },
  );
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
