import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { postgresFence, type IsolationLevel } from '../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import {
  createPostgresDatabase,
  startPostgres,
} from '../../test/support/databases/postgres-server.ts';
import { chance } from './chance.ts';
import { START } from './commit-order.ts';
import { DecodedHistory } from './decoded-history.ts';
import { retried, WRONG_PATTERNS, type Ledger } from './patterns.ts';
import { FORGET } from '../../test/fencing/support/forget.ts';
import { inPostgres } from '../../test/fencing/support/hand-written-transactions.ts';
import { resourcesOf, RIGHT, type Holder } from './holders.ts';
import type { Record } from './record.ts';
import { noting, runRight, wrongWays, type StressedStore } from './store.ts';

const [RC, ...STRICT] = ['read committed', 'repeatable read', 'serializable'] as const;
const LEVELS: readonly IsolationLevel[] = [RC, RC, RC, ...STRICT];
const WORKERS = 16;
const SET = 'UPDATE ledger SET writer = $2, token = $3, read_from = $4 WHERE resource = $1';

/** The statement reads what is as old as its snapshot, which is older than its wait for the row of the fence. */
async function checkInTheSameStatement(pool: pg.Pool, holder: Holder): Promise<void> {
  await pool.query(
    `WITH fence AS (
      INSERT INTO redlock_fence AS f (resource, token, holder) VALUES ($1, $2, $3)
      ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder
      WHERE f.token < EXCLUDED.token RETURNING resource)
    UPDATE ledger SET writer = $4, token = $2, read_from = (SELECT writer FROM ledger WHERE resource = $1)
    FROM fence WHERE ledger.resource = fence.resource`,
    [holder.resource, holder.token.value, holder.holder, randomUUID()],
  );
}

/** It is judged by the write-ahead log. One pool for the fence, for transactions of one's own, and for reads. */
export async function postgresStore(record: Record): Promise<StressedStore> {
  const server = await startPostgres();
  const url = await createPostgresDatabase(server, `stress_${process.pid}_${Date.now()}`);
  const pool = new pg.Pool({ connectionString: url, max: WORKERS + 6 });
  pool.on('error', () => undefined);
  // Errors of connections that are in use.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const fence = postgresFence(pool, record.options);
  await pool.query(
    `${fence.ddl()} CREATE TABLE ledger (resource text PRIMARY KEY, writer text, token bigint, read_from text)`,
  );
  const names = [RIGHT, ...Object.keys(WRONG_PATTERNS), 'checkInTheSameStatement'];
  await pool.query('INSERT INTO ledger (resource, writer) SELECT unnest($1::text[]), $2', [
    names.flatMap(resourcesOf),
    START,
  ]);
  const history = await DecodedHistory.start(pool, `stress_${process.pid}`);

  const ledger = (level: IsolationLevel): Ledger<pg.PoolClient> => ({
    fence,
    read: async ({ resource }, tx) => {
      const text = 'SELECT writer FROM ledger WHERE resource = $1';
      return (await (tx ?? pool).query(text, [resource])).rows[0].writer;
    },
    write: async (tx, { resource, token }, readFrom) => {
      const writer = randomUUID();
      await tx.query(SET, [resource, writer, token.value, readFrom]);
      return writer;
    },
    fenced: ({ token }, work) =>
      fence.transaction(token, work, { isolationLevel: level, attempts: 200 }),
    ownTransaction: (work) =>
      retried(() => inPostgres(pool, work, `BEGIN ISOLATION LEVEL ${level}`), isRetryableSqlError),
  });

  return {
    workers: WORKERS,
    right: (holder) => runRight(noting(ledger(chance.pick(LEVELS)), record), holder),
    wrong: {
      ...wrongWays(ledger('read committed')),
      checkInTheSameStatement: (holder) => checkInTheSameStatement(pool, holder),
    },
    async prune(before) {
      await fence.prune();
      return (await pool.query(FORGET.postgresql, [before])).rowCount ?? 0;
    },
    async crash() {
      if (server.crash) return server.crash();
      await pool.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()',
      );
    },
    history: () => history.take(),
    async close() {
      await history.drop();
      await pool.end();
      await server.stop();
    },
  };
}
