/**
 * The right way to let a database refuse a holder that came back from the dead. Two steps carry it:
 *
 * 1. `claim` the token BEFORE the first read. From then on every older holder is refused. Without this, an older holder's
 *    late write is still accepted after the new holder has read, and the new holder then decides on stale data.
 * 2. Advance the fence as the FIRST statement of every transaction that writes. The row lock it takes makes an older holder's
 *    open transaction end before ours reads, and makes ours end before a newer holder's begins. A check in a
 *    transaction of its own, or after the first read, leaves a gap in which a stale write gets through.
 *
 * Rows of the fence table are never deleted: a fence that forgot its token accepts old ones again.
 */
import { StaleTokenError, type FencingToken } from 'nestjs-fenced-lock';
import type { Pool, PoolClient } from 'pg';
import { transaction } from './transaction.ts';

/**
 * One row per key, inserted or advanced when our token is newer, or is ours already: the same holder may write several times,
 * and two holders that were given one number by a broken token source are still told apart. A row that is
 * not returned has seen a newer token. Sorted, so that transactions on several keys can't deadlock.
 */
const ADVANCE = `
  INSERT INTO seat_sample.fence AS f (resource, token, holder)
  SELECT r, CAST($2 AS bigint), $3 FROM unnest($1::text[]) AS u(r) ORDER BY r COLLATE "C"
  ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder
   WHERE f.token < EXCLUDED.token OR (f.token = EXCLUDED.token AND f.holder = EXCLUDED.holder)
  RETURNING resource`;

const CURRENT = `
  SELECT resource, CAST(token AS text) AS token, holder FROM seat_sample.fence
   WHERE resource = ANY($1::text[]) AND NOT (token = CAST($2 AS bigint) AND holder = $3)
   ORDER BY fence.token DESC LIMIT 1`;

/**
 * Makes the token known to the database, in a short transaction of its own. Call it before the first read.
 * @param record further statements that commit together with the claim.
 * @throws StaleTokenError when the database has seen a newer token; nothing was written.
 */
export async function claim(
  pool: Pool,
  token: FencingToken,
  record?: (client: PoolClient) => Promise<void>,
): Promise<void> {
  await fencedTransaction(pool, token, async (client) => record?.(client));
}

/**
 * Runs `work` in a transaction whose first statement advances the fence.
 * @throws StaleTokenError when the database has seen a newer token: `work` did not run, everything is rolled back.
 */
export function fencedTransaction<T>(
  pool: Pool,
  token: FencingToken,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  return transaction(pool, async (client) => {
    await advance(client, token);
    return work(client);
  });
}

/** 0 rows = stale. The number travels as decimal text: a driver's float would lose digits. */
async function advance(client: PoolClient, token: FencingToken): Promise<void> {
  const parameters = [token.keys, String(token), token.holder];
  const advanced = await client.query(ADVANCE, parameters);
  if (advanced.rowCount === token.keys.length) return;
  const current = await client.query<{ resource: string; token: string; holder: string }>(
    CURRENT,
    parameters,
  );
  const newer = current.rows[0];
  throw new StaleTokenError(
    newer?.resource ?? token.keys.join(', '),
    String(token),
    newer?.token,
    newer?.holder,
  );
}
