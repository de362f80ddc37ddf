import { describe } from '@jest/globals';
import pg from 'pg';
import { SqlFence, type SqlFenceAdapter } from '../../lib/fencing/index.ts';
import {
  createPostgresAccounts,
  firstText,
  SELECT,
  UPSERT,
} from '../fencing/support/account-stores.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import {
  itFences,
  itNoticesTheEnd,
  loadPackage,
  type FencedClient,
} from './support/fenced-client.ts';

// Clients for which this package has no adapter, as docs/fencing/orms.md connects them.

function postgresJsAdapter(sql: any): SqlFenceAdapter<any> {
  return {
    dialect: 'postgresql',
    executor: (tx) => ({
      dialect: 'postgresql',
      placeholder: 'numbered',
      query: async (text, parameters) => tx.unsafe(text, parameters),
    }),
    isTransaction: async (tx) =>
      'savepoint' in tx &&
      tx.unsafe('LOCK TABLE pg_catalog.pg_class IN ACCESS SHARE MODE').then(
        () => true,
        (error: { code?: string }) => {
          if (error.code === '25P01') return false;
          throw error;
        },
      ),
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

  const openPostgresJs = (): FencedClient => {
    const sql = loadPackage('postgres')(database.url, { max: 30, onnotice: () => undefined });
    return {
      fence: new SqlFence(postgresJsAdapter(sql)),
      accounts: {
        read: async (resource) => firstText(await sql.unsafe(SELECT.postgresql, [resource])),
        write: (tx, resource, text) => tx.unsafe(UPSERT.postgresql, [resource, text]),
      },
      outside: [sql],
      run: (work) => sql.begin(work),
      execute: (tx, text) => tx.unsafe(text),
      close: () => sql.end(),
    };
  };
  const openSequelize = (): FencedClient => {
    const { Sequelize } = loadPackage('sequelize');
    const options = { dialectModule: pg, dialect: 'postgres', logging: false, pool: { max: 30 } };
    const sequelize = new Sequelize(database.url, options);
    return {
      fence: new SqlFence(sequelizeAdapter(sequelize)),
      accounts: {
        read: async (resource) =>
          firstText((await sequelize.query(SELECT.postgresql, { bind: [resource] }))[0]),
        write: (transaction, resource, text) =>
          sequelize.query(UPSERT.postgresql, { bind: [resource, text], transaction }),
      },
      outside: [sequelize],
      run: (work) => sequelize.transaction(work),
      execute: (transaction, text) => sequelize.query(text, { transaction }),
      close: () => sequelize.close(),
    };
  };

  itFences('postgres.js', openPostgresJs);
  itNoticesTheEnd('postgres.js', openPostgresJs);
  itFences('Sequelize', openSequelize);
  itNoticesTheEnd('Sequelize', openSequelize);
});
