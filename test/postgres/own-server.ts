import { afterAll, afterEach, beforeAll } from '@jest/globals';
import pg from 'pg';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { startPostgres } from '../support/databases/postgres-server.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useClosing } from '../support/use-redlocks.ts';

/** A server of its own for the tests of one file, on which nothing reaches the disk by itself but what a commit waits for. */
export interface OwnServer {
  /** It has the tables of the locks. */
  readonly pool: pg.Pool;
  readonly url: string;
  crash(): Promise<void>;
  /** Ends after the test. */
  readonly newPool: (settings?: pg.PoolConfig) => pg.Pool;
  /** The URL of another database, or for another role. */
  urlWith(change: (url: URL) => void): string;
  /** A node that is the only one, and has joined. */
  readonly openDriver: (over?: pg.Pool, silenceLimitMs?: number) => Promise<NodeDriver>;
}

export function useOwnServer(): OwnServer {
  let server: DatabaseServer;
  let pool: pg.Pool;
  const closing = useClosing();
  const pools: pg.Pool[] = [];
  const newPool = (settings: pg.PoolConfig = {}): pg.Pool => {
    const made = new pg.Pool({ connectionString: server.url, ...settings });
    made.on('error', () => undefined);
    pools.push(made);
    return made;
  };
  beforeAll(async () => {
    server = await startPostgres({ wal_writer_delay: '10s', fsync: 'on' });
    pool = newPool();
    await pool.query(postgresNode(pool).ddl());
  }, 180_000);
  afterEach(async () => {
    await Promise.all(pools.splice(1).map((each) => each.end()));
  });
  afterAll(async () => {
    await pool?.end();
    await server?.stop();
  });
  return {
    get pool() {
      return pool;
    },
    get url() {
      return server.url;
    },
    crash: () => server.crash!(),
    newPool,
    urlWith(change) {
      const url = new URL(server.url);
      change(url);
      return url.href;
    },
    async openDriver(over = pool, silenceLimitMs = 60_000) {
      const driver = await NodeDriver.open(closing(postgresNode(over)), { silenceLimitMs });
      await driver.join(0, { configuration: '1 postgresql' });
      return driver;
    },
  };
}

let keys = 0;
export const newNames = (): NodeNames => new NodeNames('lock:', [`key${(keys += 1)}`]);
