import { randomUUID } from 'node:crypto';
import type { Pool, PoolClient } from 'pg';
import { StaleTokenError } from '../../../lib/core/errors.ts';
import type { IsolationLevel, PostgresFence } from '../../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../../lib/fencing/sql/sql-error.ts';
import type { Session } from './overlapping-holders.ts';

/** What a pattern works with. */
export interface PostgresStage {
  readonly pool: Pool;
  readonly fence: PostgresFence<PoolClient>;
  readonly isolationLevel: IsolationLevel;
}

/** One way to write under a token, for one session. */
export type PostgresPattern = (stage: PostgresStage, session: Session) => Promise<void>;

type Connection = Pool | PoolClient;

const read = async (connection: Connection, { resource }: Session): Promise<string> =>
  (await connection.query('SELECT writer FROM ledger WHERE resource = $1', [resource])).rows[0]
    .writer;

const write = async (
  connection: Connection,
  { resource, token }: Session,
  readFrom: string,
): Promise<string> => {
  const writer = randomUUID();
  await connection.query(
    'UPDATE ledger SET writer = $2, token = $3, read_from = $4 WHERE resource = $1',
    [resource, writer, token.value, readFrom],
  );
  return writer;
};

/** fence.transaction, which reads inside first, and then goes on from what it has in memory. */
const fencedTransaction: PostgresPattern = async ({ fence, isolationLevel }, session) => {
  let known: string | undefined;
  for (let count = 0; count < session.writes; count += 1) {
    known = await fence.transaction(
      session.token,
      async (tx) => {
        await session.nap();
        const from: string = known ?? (await read(tx, session));
        await session.nap();
        return write(tx, session, from);
      },
      { isolationLevel, attempts: 100 },
    );
    await session.nap();
  }
};

/** claim, read outside any transaction, then fence.transaction for the write. */
const claimThenTransaction: PostgresPattern = async ({ fence, pool, isolationLevel }, session) => {
  await fence.claim(session.token);
  await session.nap();
  let known = await read(pool, session);
  for (let count = 0; count < session.writes; count += 1) {
    await session.nap();
    const from = known;
    known = await fence.transaction(session.token, (tx) => write(tx, session, from), {
      isolationLevel,
      attempts: 100,
    });
  }
};

/** claim, read, then check and write in one statement. */
const claimThenStatement: PostgresPattern = async ({ fence, pool }, session) => {
  await fence.claim(session.token);
  let known = await read(pool, session);
  for (let count = 0; count < session.writes; count += 1) {
    await session.nap();
    const writer = randomUUID();
    await fence.statement(
      session.token,
      'UPDATE ledger SET writer = $2, token = $3, read_from = $4 FROM fence WHERE ledger.resource = $1',
      [session.resource, writer, session.token.value, known],
    );
    known = writer;
  }
};

/** The user's own transaction, whose first statement is fence.advance. */
const advanceFirst: PostgresPattern = async ({ fence, pool, isolationLevel }, session) => {
  await ownTransaction(pool, isolationLevel, async (client) => {
    await fence.advance(client, session.token);
    await session.nap();
    const from = await read(client, session);
    await session.nap();
    await write(client, session, from);
  });
};

/** Right: no violation, ever. */
export const RIGHT_PATTERNS: Readonly<Record<string, PostgresPattern>> = {
  fencedTransaction,
  claimThenTransaction,
  claimThenStatement,
  advanceFirst,
};

const noFence: PostgresPattern = ({ pool, isolationLevel }, session) =>
  ownTransaction(pool, isolationLevel, async (client) => {
    const from = await read(client, session);
    await session.nap();
    await write(client, session, from);
  });

const checkThenWrite: PostgresPattern = ({ pool, isolationLevel }, session) =>
  ownTransaction(pool, isolationLevel, async (client) => {
    const { rows } = await client.query('SELECT token FROM redlock_fence WHERE resource = $1', [
      session.resource,
    ]);
    if (rows[0] && Number(rows[0].token) > session.token.value)
      throw new StaleTokenError(session.resource, String(session.token));
    const from = await read(client, session);
    await session.nap();
    await client.query(
      `INSERT INTO redlock_fence (resource, token, holder) VALUES ($1, $2, $3)
       ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder`,
      [session.resource, session.token.value, session.holder],
    );
    await write(client, session, from);
  });

const advanceInItsOwnTransaction: PostgresPattern = async (
  { fence, pool, isolationLevel },
  session,
) => {
  await ownTransaction(pool, isolationLevel, async (client) => {
    await fence.claim(session.token);
    const from = await read(client, session);
    await session.nap();
    await write(client, session, from);
  });
};

/** The right transaction, but what it writes was read before the token reached the database. */
const readWithoutClaim: PostgresPattern = async ({ fence, pool, isolationLevel }, session) => {
  const from = await read(pool, session);
  await session.nap();
  await fence.transaction(session.token, (tx) => write(tx, session, from), {
    isolationLevel,
    attempts: 100,
  });
};

/** Wrong: the same judge must find violations. */
export const WRONG_PATTERNS: Readonly<Record<string, PostgresPattern>> = {
  noFence,
  checkThenWrite,
  advanceInItsOwnTransaction,
  readWithoutClaim,
};

/** A transaction as users write it by hand, tried again when the database asks for it. */
async function ownTransaction(
  pool: Pool,
  isolationLevel: IsolationLevel,
  work: (client: PoolClient) => Promise<void>,
): Promise<void> {
  for (;;) {
    const client = await pool.connect();
    try {
      await client.query(`BEGIN ISOLATION LEVEL ${isolationLevel}`);
      await work(client);
      await client.query('COMMIT');
      return;
    } catch (error) {
      await client.query('ROLLBACK');
      if (!isRetryableSqlError(error)) throw error;
    } finally {
      client.release();
    }
  }
}
