import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import { fenceConformance } from '../../lib/testing/fencing.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { createPostgresDatabase, startPostgres } from '../support/databases/postgres-server.ts';
import { ACCOUNT_DDL } from './support/account-stores.ts';
import {
  openDrizzle,
  openKnex,
  openKysely,
  openPg,
  openTypeorm,
  type OpenStore,
} from './support/postgres-accounts.ts';
import { openPrisma } from './support/prisma-accounts.ts';

// Every driver and ORM, with its own way to read and write, must pass the kit on a real PostgreSQL.

describe('on PostgreSQL', () => {
  let server: DatabaseServer;
  let url: string;

  beforeAll(async () => {
    server = await startPostgres();
    url = await createPostgresDatabase(server, `conformance_${Date.now()}_${process.pid}`);
    const pool = new pg.Pool({ connectionString: url });
    await pool.query(ACCOUNT_DDL.postgresql);
    await pool.query(postgresFence(pool).ddl());
    await pool.end();
  }, 120_000);

  afterAll(() => server?.stop());

  const openers: Record<string, (url: string) => Promise<OpenStore>> = {
    pg: openPg,
    'pg with prepared statements': (database) => openPg(database, { prepared: true }),
    TypeORM: openTypeorm,
    Drizzle: openDrizzle,
    Knex: openKnex,
    Kysely: openKysely,
    'Prisma with adapter-pg': openPrisma,
  };

  it.each(Object.entries(openers))(
    '%s passes the conformance kit',
    async (_name, open) => {
      const opened = await open(url);
      try {
        const report = await fenceConformance(opened.store);
        expect(report.cases.filter((each) => each.failure !== undefined)).toEqual([]);
        expect(report.cases.length).toBe(13);
      } finally {
        await opened.close();
      }
    },
    120_000,
  );
});
