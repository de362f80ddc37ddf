import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import { mysqlFence, type Fence } from '../../../lib/fencing/index.ts';
import { useMariadb } from '../../support/databases/use-databases.ts';
import { inMariadb } from '../support/hand-written-transactions.ts';
import { SCALE } from '../support/scale.ts';
import { judge, START, type Violations } from './commit-order.ts';
import { runOverlappingHolders } from './overlapping-holders.ts';
import { retried, RIGHT_PATTERNS, WRONG_PATTERNS, type Ledger, type Pattern } from './patterns.ts';

// At MariaDB's defaults, REPEATABLE READ. Each write notes itself in `journal` while it holds the row lock of what it wrote,
// until its commit: for one resource, the order of the journal's numbers is the order of commits.

const WORKERS = 24;

type MariadbPattern = Pattern<PoolConnection>;

function ledgerOf(pool: Pool, fence: Fence<PoolConnection>): Ledger<PoolConnection> {
  return {
    fence,
    read: async ({ resource }, tx) => {
      const text = 'SELECT writer FROM ledger WHERE resource = ?';
      const [rows] = await (tx ?? pool).query<RowDataPacket[]>(text, [resource]);
      return rows[0]!['writer'] as string;
    },
    write: async (tx, { resource, token }, readFrom) => {
      const writer = randomUUID();
      await tx.query('UPDATE ledger SET writer = ? WHERE resource = ?', [writer, resource]);
      await tx.query(
        'INSERT INTO journal (resource, writer, token, read_from) VALUES (?, ?, ?, ?)',
        [resource, writer, token.value, readFrom],
      );
      return writer;
    },
    fenced: ({ token }, work) => fence.transaction(token, work),
    ownTransaction: (work) =>
      retried(
        () => inMariadb(pool, work),
        (error) => (error as { code?: string }).code === 'ER_LOCK_DEADLOCK',
      ),
  };
}

const WRONG: Readonly<Record<string, MariadbPattern>> = {
  ...WRONG_PATTERNS,
  readBeforeAdvance: (ledger, session) =>
    ledger.ownTransaction(async (connection) => {
      await ledger.read(session, connection);
      await session.nap();
      await ledger.fence.advance(connection, session.token);
      // Reading again doesn't help: the first SELECT froze what this transaction sees.
      await ledger.write(connection, session, await ledger.read(session, connection));
    }),
  affectedRows: (ledger, session) =>
    ledger.ownTransaction(async (connection) => {
      const [{ affectedRows }] = await connection.query<ResultSetHeader>(
        `INSERT INTO redlock_fence (resource, token, holder) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE
          holder = IF(VALUES(token) > token, VALUES(holder), holder), token = GREATEST(token, VALUES(token))`,
        [session.resource, session.token.value, session.holder],
      );
      if (affectedRows === 0) return;
      await ledger.write(connection, session, await ledger.read(session, connection));
    }),
};

describe('on MariaDB at its defaults, judged by the order of commits', () => {
  let transactions = 0;
  const database = useMariadb(async (pool) => {
    await pool.query(mysqlFence(pool).ddl());
    await pool.query(
      'CREATE OR REPLACE TABLE ledger (resource VARCHAR(100) PRIMARY KEY, writer VARCHAR(50)) ENGINE = InnoDB',
    );
    await pool.query(`CREATE OR REPLACE TABLE journal (number BIGINT AUTO_INCREMENT PRIMARY KEY, resource VARCHAR(100), writer VARCHAR(50),
      token BIGINT, read_from VARCHAR(50)) ENGINE = InnoDB`);
  });

  afterAll(() => {
    process.stderr.write(`fenced transactions on MariaDB: ${transactions}\n`);
  });

  async function stress(
    name: string,
    pattern: MariadbPattern,
    sessions: number,
    resourceCount: number,
  ): Promise<Violations> {
    const { pool } = database;
    const resources = Array.from({ length: resourceCount }, (_none, index) => `${name}-${index}`);
    for (const resource of resources)
      await pool.query('INSERT INTO ledger VALUES (?, ?)', [resource, START]);
    const ledger = ledgerOf(pool, mysqlFence(pool, { onEvent: () => void (transactions += 1) }));
    await runOverlappingHolders(
      { sessions, workers: WORKERS, resources, duplicates: 0.1 },
      (session) => pattern(ledger, session),
    );
    const [rows] = await pool.query<RowDataPacket[]>(
      'SELECT resource, writer, token, read_from AS readFrom FROM journal WHERE resource IN (?) ORDER BY number',
      [resources],
    );
    return judge(
      rows.map(({ resource, writer, token, readFrom }) => ({
        resource,
        writer,
        token: BigInt(token),
        readFrom,
      })),
    );
  }

  it.each(Object.entries<MariadbPattern>(RIGHT_PATTERNS))(
    '%s loses and reorders no write',
    async (name, pattern) => {
      const sessions = Math.ceil(1_200 * SCALE);
      const { commits, ...violations } = await stress(name, pattern, sessions, 10);
      expect(violations).toEqual({ outOfOrder: 0, lostUpdates: 0 });
      expect(commits).toBeGreaterThan(Math.min(100, sessions / 5));
    },
    120_000,
  );

  it.each(Object.entries(WRONG))(
    'the judge sees what goes wrong with %s',
    async (name, pattern) => {
      const { outOfOrder, lostUpdates } = await stress(name, pattern, 500, 5);
      expect(outOfOrder + lostUpdates).toBeGreaterThan(0);
    },
    120_000,
  );
});
