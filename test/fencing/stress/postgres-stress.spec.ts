import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { postgresFence, type IsolationLevel } from '../../../lib/fencing/index.ts';
import type { DatabaseServer } from '../../support/databases/database-server.ts';
import { createPostgresDatabase, startPostgres } from '../../support/databases/postgres-server.ts';
import { judge, START, type Violations } from './commit-order.ts';
import { DecodedHistory } from './decoded-history.ts';
import { runOverlappingHolders } from './overlapping-holders.ts';
import { RIGHT_PATTERNS, WRONG_PATTERNS, type PostgresPattern } from './postgres-patterns.ts';

// Holders overlap as if there were no lock. The write-ahead log tells in which order their writes were committed.

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];
/** FENCE_STRESS multiplies the number of sessions. */
const SCALE = Number(process.env.FENCE_STRESS ?? 1);
const WORKERS = 40;

describe('on PostgreSQL, judged by the order of commits in the write-ahead log', () => {
  let server: DatabaseServer;
  let pool: pg.Pool;
  let observer: pg.Pool;
  let history: DecodedHistory;
  let transactions = 0;
  let stressed = 0;
  const slot = `order_${process.pid}_${Date.now()}`;

  beforeAll(async () => {
    server = await startPostgres();
    const connectionString = await createPostgresDatabase(server, slot);
    pool = new pg.Pool({ connectionString, max: 2 * WORKERS + 10 });
    observer = new pg.Pool({ connectionString, max: 1 });
    for (const each of [pool, observer]) each.on('error', () => undefined);
    await pool.query(postgresFence(pool).ddl());
    await pool.query(
      'CREATE TABLE ledger (resource text PRIMARY KEY, writer text, token bigint, read_from text)',
    );
    history = await DecodedHistory.start(observer, slot);
  }, 120_000);

  afterAll(async () => {
    await history?.drop();
    await Promise.all([pool?.end(), observer?.end()]);
    await server?.stop();
  });

  async function stress(
    name: string,
    isolationLevel: IsolationLevel,
    pattern: PostgresPattern,
    sessions: number,
    resourceCount: number,
  ): Promise<Violations> {
    const resources = Array.from(
      { length: resourceCount },
      (_none, index) => `${name}-${isolationLevel.replace(' ', '-')}-${index}`,
    );
    for (const resource of resources) {
      await pool.query('INSERT INTO ledger (resource, writer) VALUES ($1, $2)', [resource, START]);
    }
    const fence = postgresFence(pool, { onEvent: () => void (transactions += 1) });
    await runOverlappingHolders(
      { sessions, workers: WORKERS, resources, duplicates: 0.1 },
      (session) => pattern({ pool, fence, isolationLevel }, session),
    );
    return judge(await history.take());
  }

  const rights = LEVELS.flatMap((level) =>
    Object.entries(RIGHT_PATTERNS).map(([name, pattern]) => [name, level, pattern] as const),
  );

  it.each(rights)(
    '%s at %s loses and reorders nothing',
    async (name, level, pattern) => {
      const { commits, ...violations } = await stress(
        name,
        level,
        pattern,
        Math.ceil(1_100 * SCALE),
        16,
      );
      expect(violations).toEqual({ outOfOrder: 0, lostUpdates: 0 });
      expect(commits).toBeGreaterThan(100);
      stressed += 1;
    },
    120_000,
  );

  it.each(Object.entries(WRONG_PATTERNS))(
    'the judge sees what goes wrong with %s',
    async (name, pattern) => {
      const { outOfOrder, lostUpdates } = await stress(name, 'read committed', pattern, 600, 6);
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
