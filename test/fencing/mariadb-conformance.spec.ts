import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import { mysqlFence } from '../../lib/fencing/index.ts';
import { fenceConformance } from '../../lib/testing/fencing.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { startMariadb } from '../support/databases/mariadb-server.ts';
import { ACCOUNT_DDL } from './support/account-stores.ts';
import {
  openDrizzleMysql,
  openKnexMysql,
  openKyselyMysql,
  openMysql2,
  openTypeormMysql,
} from './support/mariadb-accounts.ts';
import type { OpenStore } from './support/postgres-accounts.ts';

describe('on MariaDB at its defaults (REPEATABLE READ)', () => {
  let server: DatabaseServer;

  beforeAll(async () => {
    server = await startMariadb();
    const pool = createPool(server.url);
    await pool.query(ACCOUNT_DDL.mysql.replace('TABLE', 'TABLE IF NOT EXISTS'));
    await pool.query(mysqlFence(pool).ddl());
    await pool.end();
  }, 180_000);

  afterAll(() => server?.stop());

  const openers: Record<string, (url: string) => Promise<OpenStore>> = {
    mysql2: openMysql2,
    TypeORM: openTypeormMysql,
    Knex: openKnexMysql,
    Drizzle: openDrizzleMysql,
    Kysely: openKyselyMysql,
  };

  it.each(Object.entries(openers))(
    '%s passes the conformance kit',
    async (_name, open) => {
      const opened = await open(server.url);
      try {
        const report = await fenceConformance(opened.store);
        expect(report.cases.filter((each) => each.failure !== undefined)).toEqual([]);
      } finally {
        await opened.close();
      }
    },
    120_000,
  );
});
