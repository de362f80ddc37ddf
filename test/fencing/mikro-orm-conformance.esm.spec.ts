import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import { fenceConformance } from '../../lib/testing/fencing.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { createPostgresDatabase, startPostgres } from '../support/databases/postgres-server.ts';
import { ACCOUNT_DDL } from './support/account-stores.ts';
import { openMikroOrm } from './support/mikro-orm-accounts.ts';

// A spec of its own: MikroORM 7 is an ES module only.

describe('MikroORM on PostgreSQL', () => {
  let server: DatabaseServer;
  let url: string;

  beforeAll(async () => {
    server = await startPostgres();
    url = await createPostgresDatabase(server, `mikro_${Date.now()}_${process.pid}`);
    const pool = new pg.Pool({ connectionString: url });
    await pool.query(ACCOUNT_DDL.postgresql);
    await pool.query(postgresFence(pool).ddl());
    await pool.end();
  }, 120_000);

  afterAll(() => server?.stop());

  it('passes the conformance kit', async () => {
    const opened = await openMikroOrm(url);
    const report = await fenceConformance(opened.store);
    await opened.close();
    expect(report.cases.filter((each) => each.failure !== undefined)).toEqual([]);
  }, 60_000);
});
