import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import pg from 'pg';
import {
  FencingToken,
  SqlFence,
  type Fence,
  type SqlFenceAdapter,
} from '../../lib/fencing/index.ts';
import {
  createPostgresAccounts,
  fencedAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
} from '../fencing/support/account-stores.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

// Clients without an adapter of ours, as docs/fencing/orms.md connects them; their packages are in this folder alone.

const require = createRequire(join(process.cwd(), 'test/stores/package.json'));

function postgresJsAdapter(sql: any): SqlFenceAdapter<any> {
  return {
    dialect: 'postgresql',
    executor: (tx) => ({
      dialect: 'postgresql',
      placeholder: 'numbered',
      query: async (text, parameters) => tx.unsafe(text, parameters),
    }),
    isTransaction: (tx) => 'savepoint' in tx,
    run: (work, level) => sql.begin(level ? `ISOLATION LEVEL ${level}` : '', work),
  };
}

function sequelizeAdapter(sequelize: any): SqlFenceAdapter<any> {
  return {
    dialect: 'postgresql',
    executor: (transaction) => ({
      dialect: 'postgresql',
      placeholder: 'numbered',
      query: async (text, bind) => (await sequelize.query(text, { bind, transaction }))[0],
    }),
    isTransaction: (transaction) => transaction.finished === undefined && 'rollback' in transaction,
    run: (work, level) => sequelize.transaction({ isolationLevel: level?.toUpperCase() }, work),
  };
}

describe('on PostgreSQL', () => {
  const database = usePostgres(createPostgresAccounts);

  const openPostgresJs = () => {
    const sql = require('postgres')(database.url, { max: 30, onnotice: () => undefined });
    return { sql, fence: new SqlFence(postgresJsAdapter(sql)) as Fence };
  };
  const openSequelize = () => {
    const { Sequelize } = require('sequelize');
    const options = { dialectModule: pg, dialect: 'postgres', logging: false, pool: { max: 30 } };
    const sequelize = new Sequelize(database.url, options);
    return { sequelize, fence: new SqlFence(sequelizeAdapter(sequelize)) as Fence };
  };

  itConforms('postgres.js', () => {
    const { sql, fence } = openPostgresJs();
    const store = fencedAccounts(fence, {
      read: async (resource) => firstText(await sql.unsafe(SELECT.postgresql, [resource])),
      write: (tx, resource, text) => tx.unsafe(UPSERT.postgresql, [resource, text]),
    });
    return { store, close: () => sql.end() };
  });

  itConforms('Sequelize', () => {
    const { sequelize, fence } = openSequelize();
    const store = fencedAccounts(fence, {
      read: async (resource) =>
        firstText((await sequelize.query(SELECT.postgresql, { bind: [resource] }))[0]),
      write: (transaction, resource, text) =>
        sequelize.query(UPSERT.postgresql, { bind: [resource, text], transaction }),
    });
    return { store, close: () => sequelize.close() };
  });

  it.each(['postgres.js', 'Sequelize'])(
    '%s: a stale token is refused and rolled back at every level, in transactions of the user too, and outside',
    async (name) => {
      const { sql, sequelize, fence } = {
        sql: undefined,
        sequelize: undefined,
        ...(name === 'Sequelize' ? openSequelize() : openPostgresJs()),
      };
      const token = (value: number) => new FencingToken(value, [name], `holder-${value}`);
      const begin = (work: (tx: unknown) => Promise<void>): Promise<void> =>
        sequelize ? sequelize.transaction(work) : sql.begin(work);
      try {
        await begin((tx) => fence.advance(tx, token(9)));
        const stale = { code: 'STALE_TOKEN', currentToken: '9' };
        await expect(begin((tx) => fence.advance(tx, token(8)))).rejects.toMatchObject(stale);
        for (const isolationLevel of [
          'read committed',
          'repeatable read',
          'serializable',
        ] as const) {
          await fence.transaction(token(9), () => undefined, { isolationLevel });
          await expect(
            fence.transaction(token(8), () => undefined, { isolationLevel }),
          ).rejects.toMatchObject(stale);
        }
        await expect(fence.advance(sql ?? sequelize, token(10))).rejects.toThrow(
          /outside a transaction/,
        );
      } finally {
        await (sequelize ? sequelize.close() : sql.end());
      }
    },
  );
});
