import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import { StaleTokenError } from '../../../lib/core/errors.ts';
import { postgresFence, type IsolationLevel, type Fence } from '../../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../../lib/fencing/sql/sql-error.ts';
import { usePostgres } from '../../support/databases/use-databases.ts';
import { inPostgres } from '../support/hand-written-transactions.ts';
import { SCALE } from '../support/scale.ts';
import { judge, START, type Violations } from './commit-order.ts';
import { DecodedHistory } from './decoded-history.ts';
import { runOverlappingHolders, type Session } from './overlapping-holders.ts';
import { retried, RIGHT_PATTERNS, WRONG_PATTERNS, type Ledger, type Pattern } from './patterns.ts';

// Holders overlap as if there were no lock. The write-ahead log tells in which order their writes were committed.

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];
const WORKERS = 40;

interface PostgresLedger extends Ledger<pg.PoolClient> {
  readonly fence: Fence<pg.PoolClient>;
}
type PostgresPattern = Pattern<pg.PoolClient, PostgresLedger>;

const SET = 'UPDATE ledger SET writer = $2, token = $3, read_from = $4';

function ledgerOf(
  pool: pg.Pool,
  fence: Fence<pg.PoolClient>,
  isolationLevel: IsolationLevel,
): PostgresLedger {
  return {
    fence,
    read: async ({ resource }, tx) => {
      const text = 'SELECT writer FROM ledger WHERE resource = $1';
      return (await (tx ?? pool).query(text, [resource])).rows[0].writer;
    },
    write: async (tx, { resource, token }, readFrom) => {
      const writer = randomUUID();
      await tx.query(`${SET} WHERE resource = $1`, [resource, writer, token.value, readFrom]);
      return writer;
    },
    fenced: ({ token }, work) => fence.transaction(token, work, { isolationLevel, attempts: 100 }),
    ownTransaction: (work) =>
      retried(
        () => inPostgres(pool, work, `BEGIN ISOLATION LEVEL ${isolationLevel}`),
        isRetryableSqlError,
      ),
  };
}

const checkThenWrite: PostgresPattern = (ledger, session) =>
  ledger.ownTransaction(async (client) => {
    const { resource, token, holder } = session;
    const { rows } = await client.query('SELECT token FROM redlock_fence WHERE resource = $1', [
      resource,
    ]);
    if (rows[0] && Number(rows[0].token) > token.value)
      throw new StaleTokenError(resource, String(token));
    const from = await ledger.read(session, client);
    await session.nap();
    await client.query(
      `INSERT INTO redlock_fence (resource, token, holder) VALUES ($1, $2, $3)
       ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder`,
      [resource, token.value, holder],
    );
    await ledger.write(client, session, from);
  });

/** Checks and writes in one statement: what it reads is as old as its snapshot, which is older than its wait for the row of the fence. */
const checkInTheSameStatement: PostgresPattern = (ledger, session) =>
  ledger.ownTransaction(async (client) => {
    const { resource, token, holder } = session;
    await client.query(
      `WITH fence AS (
        INSERT INTO redlock_fence AS f (resource, token, holder) VALUES ($1, $2, $3)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder
        WHERE f.token < EXCLUDED.token RETURNING resource)
      UPDATE ledger SET writer = $4, token = $2, read_from = (SELECT writer FROM ledger WHERE resource = $1)
      FROM fence WHERE ledger.resource = fence.resource`,
      [resource, token.value, holder, randomUUID()],
    );
    await session.nap();
  });

describe('on PostgreSQL, judged by the order of commits in the write-ahead log', () => {
  const slot = `order_${process.pid}_${Date.now()}`;
  let history: DecodedHistory;
  let transactions = 0;
  let stressed = 0;

  const database = usePostgres(
    async (pool) => {
      await pool.query(postgresFence(pool).ddl());
      await pool.query(
        'CREATE TABLE ledger (resource text PRIMARY KEY, writer text, token bigint, read_from text)',
      );
      history = await DecodedHistory.start(pool, slot);
      return () => history.drop();
    },
    { max: 2 * WORKERS + 10 },
  );

  async function stress(
    name: string,
    isolationLevel: IsolationLevel,
    pattern: PostgresPattern,
    sessions: number,
    resourceCount: number,
  ): Promise<Violations> {
    const { pool } = database;
    const resources = Array.from(
      { length: resourceCount },
      (_none, index) => `${name}-${isolationLevel.replace(' ', '-')}-${index}`,
    );
    for (const resource of resources) {
      await pool.query('INSERT INTO ledger (resource, writer) VALUES ($1, $2)', [resource, START]);
    }
    const fence = postgresFence(pool, { onEvent: () => void (transactions += 1) });
    const ledger = ledgerOf(pool, fence, isolationLevel);
    await runOverlappingHolders(
      { sessions, workers: WORKERS, resources, duplicates: 0.1 },
      (session: Session) => pattern(ledger, session),
    );
    return judge(await history.take());
  }

  const rights = LEVELS.flatMap((level) =>
    Object.entries<PostgresPattern>(RIGHT_PATTERNS).map(
      ([name, pattern]) => [name, level, pattern] as const,
    ),
  );

  it.each(rights)(
    '%s at %s loses and reorders no write',
    async (name, level, pattern) => {
      const sessions = Math.ceil(1_100 * SCALE);
      const { commits, ...violations } = await stress(name, level, pattern, sessions, 16);
      expect(violations).toEqual({ outOfOrder: 0, lostUpdates: 0 });
      expect(commits).toBeGreaterThan(Math.min(100, sessions / 5));
      stressed += 1;
    },
    120_000,
  );

  it.each(
    Object.entries<PostgresPattern>({
      ...WRONG_PATTERNS,
      checkThenWrite,
      checkInTheSameStatement,
    }),
  )(
    'the judge sees what goes wrong with %s',
    async (name, pattern) => {
      const sessions = Math.max(200, 600 * SCALE);
      const { outOfOrder, lostUpdates } = await stress(
        name,
        'read committed',
        pattern,
        sessions,
        6,
      );
      expect(outOfOrder + lostUpdates).toBeGreaterThan(0);
    },
    120_000,
  );

  afterAll(() => {
    process.stderr.write(`fenced transactions on PostgreSQL: ${transactions}\n`);
    if (stressed === rights.length && transactions < 20_000 * Math.min(1, SCALE)) {
      throw new Error(`only ${transactions} transactions: too few to say much`);
    }
  });
});
