import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { postgresFence, type IsolationLevel } from '../../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../../lib/fencing/sql/sql-error.ts';
import { createPostgresDatabase, startPostgres } from '../../support/databases/postgres-server.ts';
import { START } from '../stress/commit-order.ts';
import { DecodedHistory } from '../stress/decoded-history.ts';
import { retried, type Ledger } from '../stress/patterns.ts';
import { FORGET } from '../support/forget.ts';
import { inPostgres } from '../support/hand-written-transactions.ts';
import { resourcesOf } from './holders.ts';
import type { Record } from './record.ts';
import { anyOf, noting, runRight, runWrong, type StressedStore } from './store.ts';

const [RC, ...STRICT] = ['read committed', 'repeatable read', 'serializable'] as const;
const LEVELS: readonly IsolationLevel[] = [RC, RC, RC, ...STRICT];
const WORKERS = 16;
const SET = 'UPDATE ledger SET writer = $2, token = $3, read_from = $4 WHERE resource = $1';

/** Judged by the write-ahead log. One pool for the fence, for transactions of one's own, and for reads. */
export async function postgresStore(record: Record): Promise<StressedStore> {
  const server = await startPostgres();
  const url = await createPostgresDatabase(server, `stress_${process.pid}_${Date.now()}`);
  const pool = new pg.Pool({ connectionString: url, max: WORKERS + 6 });
  pool.on('error', () => undefined);
  // Of connections that are in use.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const fence = postgresFence(pool, record.options);
  await pool.query(
    `${fence.ddl()} CREATE TABLE ledger (resource text PRIMARY KEY, writer text, token bigint, read_from text)`,
  );
  const resources = [...resourcesOf('right'), ...resourcesOf('wrong')];
  await pool.query('INSERT INTO ledger (resource, writer) SELECT unnest($1::text[]), $2', [
    resources,
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
    right: (holder) => runRight(noting(ledger(anyOf(LEVELS)), record), holder),
    wrong: (holder) => runWrong(ledger('read committed'), holder),
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
