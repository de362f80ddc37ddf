import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createPool, type Pool, type PoolConnection, type RowDataPacket } from 'mysql2/promise';
import { mysqlFence, type Fence } from '../../../lib/fencing/index.ts';
import type { DatabaseServer } from '../../support/databases/database-server.ts';
import { startMariadb } from '../../support/databases/mariadb-server.ts';
import { judge, START, type CommittedWrite, type Violations } from './commit-order.ts';
import { runOverlappingHolders, type Session } from './overlapping-holders.ts';

// At MariaDB's defaults, REPEATABLE READ. Each write notes itself in `journal` while it holds the row lock of what it wrote,
// until its commit: for one resource, the order of the journal's numbers is the order of commits.

const SCALE = Number(process.env.FENCE_STRESS ?? 1);
const WORKERS = 24;

type Connection = Pool | PoolConnection;
type Pattern = (pool: Pool, fence: Fence<PoolConnection>, session: Session) => Promise<void>;

const read = async (connection: Connection, { resource }: Session): Promise<string> => {
  const [rows] = await connection.query<RowDataPacket[]>(
    'SELECT writer FROM ledger WHERE resource = ?',
    [resource],
  );
  return rows[0]!['writer'] as string;
};

const write = async (
  connection: Connection,
  { resource, token }: Session,
  readFrom: string,
): Promise<string> => {
  const writer = randomUUID();
  await connection.query('UPDATE ledger SET writer = ? WHERE resource = ?', [writer, resource]);
  await connection.query(
    'INSERT INTO journal (resource, writer, token, read_from) VALUES (?, ?, ?, ?)',
    [resource, writer, token.value, readFrom],
  );
  return writer;
};

async function ownTransaction(
  pool: Pool,
  work: (connection: PoolConnection) => Promise<void>,
): Promise<void> {
  for (;;) {
    const connection = await pool.getConnection();
    try {
      await connection.beginTransaction();
      await work(connection);
      await connection.commit();
      return;
    } catch (error) {
      await connection.rollback();
      if ((error as { code?: string }).code !== 'ER_LOCK_DEADLOCK') throw error;
    } finally {
      connection.release();
    }
  }
}

const RIGHT: Record<string, Pattern> = {
  fencedTransaction: async (_pool, fence, session) => {
    let known: string | undefined;
    for (let count = 0; count < session.writes; count += 1) {
      known = await fence.transaction(session.token, async (tx) => {
        await session.nap();
        const from: string = known ?? (await read(tx, session));
        await session.nap();
        return write(tx, session, from);
      });
      await session.nap();
    }
  },
  claimThenTransaction: async (pool, fence, session) => {
    await fence.claim(session.token);
    await session.nap();
    const from = await read(pool, session);
    await session.nap();
    await fence.transaction(session.token, (tx) => write(tx, session, from));
  },
  advanceFirst: (pool, fence, session) =>
    ownTransaction(pool, async (connection) => {
      await fence.advance(connection, session.token);
      await session.nap();
      await write(connection, session, await read(connection, session));
    }),
};

const WRONG: Record<string, Pattern> = {
  noFence: (pool, _fence, session) =>
    ownTransaction(pool, async (connection) => {
      const from = await read(connection, session);
      await session.nap();
      await write(connection, session, from);
    }),
  readBeforeAdvance: (pool, fence, session) =>
    ownTransaction(pool, async (connection) => {
      await read(connection, session);
      await session.nap();
      await fence.advance(connection, session.token);
      // Reading again doesn't help: the first SELECT froze what this transaction sees.
      await write(connection, session, await read(connection, session));
    }),
  affectedRows: (pool, _fence, session) =>
    ownTransaction(pool, async (connection) => {
      const [result] = await connection.query(
        `INSERT INTO redlock_fence (resource, token, holder) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE
          holder = IF(VALUES(token) > token, VALUES(holder), holder), token = GREATEST(token, VALUES(token))`,
        [session.resource, session.token.value, session.holder],
      );
      if ((result as { affectedRows: number }).affectedRows === 0) return;
      await write(connection, session, await read(connection, session));
    }),
};

describe('on MariaDB at its defaults, judged by the order of commits', () => {
  let server: DatabaseServer;
  let pool: Pool;
  let transactions = 0;

  beforeAll(async () => {
    server = await startMariadb();
    pool = createPool({ uri: server.url, connectionLimit: 2 * WORKERS });
    await pool.query(mysqlFence(pool).ddl());
    await pool.query(
      'CREATE OR REPLACE TABLE ledger (resource VARCHAR(100) PRIMARY KEY, writer VARCHAR(50)) ENGINE = InnoDB',
    );
    await pool.query(`CREATE OR REPLACE TABLE journal (number BIGINT AUTO_INCREMENT PRIMARY KEY, resource VARCHAR(100), writer VARCHAR(50),
      token BIGINT, read_from VARCHAR(50)) ENGINE = InnoDB`);
  }, 180_000);

  afterAll(async () => {
    await pool?.end();
    await server?.stop();
    process.stderr.write(`fenced transactions on MariaDB: ${transactions}\n`);
  });

  async function stress(
    name: string,
    pattern: Pattern,
    sessions: number,
    resourceCount: number,
  ): Promise<Violations> {
    const resources = Array.from({ length: resourceCount }, (_none, index) => `${name}-${index}`);
    for (const resource of resources)
      await pool.query('INSERT INTO ledger VALUES (?, ?)', [resource, START]);
    const fence = mysqlFence(pool, { onEvent: () => void (transactions += 1) });
    await runOverlappingHolders(
      { sessions, workers: WORKERS, resources, duplicates: 0.1 },
      (session) => pattern(pool, fence, session),
    );
    const [rows] = await pool.query<RowDataPacket[]>(
      'SELECT * FROM journal WHERE resource IN (?) ORDER BY number',
      [resources],
    );
    const history = rows.map((row): CommittedWrite => ({
      resource: row['resource'],
      writer: row['writer'],
      token: BigInt(row['token']),
      readFrom: row['read_from'],
    }));
    return judge(history);
  }

  it.each(Object.entries(RIGHT))(
    '%s loses and reorders nothing',
    async (name, pattern) => {
      const { commits, ...violations } = await stress(name, pattern, Math.ceil(1_200 * SCALE), 10);
      expect(violations).toEqual({ outOfOrder: 0, lostUpdates: 0 });
      expect(commits).toBeGreaterThan(100);
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
