import { afterAll, beforeAll } from '@jest/globals';
import type { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { postgresNode } from '../../lib/postgres/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { lockNodeContract } from './lock-node.contract.ts';
import { createPostgresHarness } from './postgres-harness.ts';

let harnesses = 0;
const prefix = () => `contract${(harnesses += 1)}:`;

const { pool, url } = databaseOf();

lockNodeContract(
  'PostgreSQL',
  async () => {
    const listen = () => new pg.Client({ connectionString: url() });
    const run = (sql: string, values: readonly unknown[]) => pool().query(sql, [...values]);
    return createPostgresHarness(run, () => postgresNode(pool(), { listen }), prefix());
  },
  [],
);

let lite: PGlite;

beforeAll(async () => {
  lite = await startPglite();
  await lite.exec(postgresNode(lite).ddl());
});

afterAll(() => lite.close());

lockNodeContract(
  'PGlite',
  async () => {
    const run = (sql: string, values: readonly unknown[]) => lite.query(sql, [...values]);
    return createPostgresHarness(run, () => postgresNode(lite), prefix());
  },
  [],
);

function databaseOf() {
  const database = usePostgres((each) => each.query(postgresNode(each).ddl()));
  return { pool: () => database.pool, url: () => database.url };
}
