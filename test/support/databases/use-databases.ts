import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll } from '@jest/globals';
import { createPool, type Pool } from 'mysql2/promise';
import pg from 'pg';
import type { DatabaseServer } from './database-server.ts';
import { startMariadb } from './mariadb-server.ts';
import { createPostgresDatabase, startPostgres } from './postgres-server.ts';

/** Longer than a download of the server and its start take. */
const START_LIMIT_MS = 180_000;

/** The database that the tests of one file share, from the first of them on. */
export interface TestDatabase<AnyPool> {
  readonly url: string;
  readonly pool: AnyPool;
}

/**
 * Starts a server with a new, empty database before the tests of this block, and stops it after them.
 * @param prepare runs once the pool is there; what it returns runs before the pool ends
 */
export function usePostgres(
  prepare: (pool: pg.Pool) => Promise<unknown>,
  { max = 30 } = {},
): TestDatabase<pg.Pool> {
  return useDatabase(
    startPostgres,
    async (server) => {
      const name = `test_${process.pid}_${randomBytes(6).toString('hex')}`;
      const url = await createPostgresDatabase(server, name);
      const pool = new pg.Pool({ connectionString: url, max });
      // Connections that end with the server at the very end.
      pool.on('error', () => undefined);
      return { url, pool };
    },
    prepare,
  );
}

/** The same for MariaDB, with the database the server came with. */
export function useMariadb(prepare: (pool: Pool) => Promise<unknown>): TestDatabase<Pool> {
  const open = ({ url }: DatabaseServer) => ({
    url,
    pool: createPool({ uri: url, connectionLimit: 48 }),
  });
  return useDatabase(startMariadb, open, prepare);
}

function useDatabase<AnyPool extends { end(): Promise<void> }>(
  start: () => Promise<DatabaseServer>,
  open: (server: DatabaseServer) => Promise<TestDatabase<AnyPool>> | TestDatabase<AnyPool>,
  prepare: (pool: AnyPool) => Promise<unknown>,
): TestDatabase<AnyPool> {
  const database = {} as TestDatabase<AnyPool>;
  let server: DatabaseServer | undefined;
  let tearDown: unknown;
  beforeAll(async () => {
    server = await start();
    Object.assign(database, await open(server));
    tearDown = await prepare(database.pool);
  }, START_LIMIT_MS);
  afterAll(async () => {
    if (typeof tearDown === 'function') await tearDown();
    await database.pool?.end();
    await server?.stop();
  });
  return database;
}
