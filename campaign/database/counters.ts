import type pg from 'pg';
import type { FenceToken } from '../../lib/fencing/index.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import type { EventOf } from '../faults/campaign-event.ts';

type View = 'fenced' | 'unfenced';
type Query = Pick<pg.Pool | pg.PoolClient, 'query'>;

/** A number for each key, once behind the fence and once without, and the writes of both in their order. */
export const COUNTER_TABLES = `
CREATE TABLE counter (view text, key text, value bigint NOT NULL, PRIMARY KEY (view, key));
CREATE TABLE written (
  place bigserial PRIMARY KEY, view text, key text, value bigint, token bigint, holder text, process text, at double precision
);`;

export async function readCounter(database: Query, view: View, key: string): Promise<number> {
  const text = 'SELECT value FROM counter WHERE view = $1 AND key = $2';
  const { rows } = await database.query(text, [view, key]);
  return Number(rows[0]?.value ?? 0);
}

/** Writes one number that the holder made of the one that it had read, whatever stands there now. */
export async function writeCounter(
  database: Query,
  { view, key, value }: { view: View; key: string; value: number },
  { value: token, holder }: FenceToken,
  process: string,
): Promise<void> {
  await database.query(
    `WITH counted AS (
       INSERT INTO counter VALUES ($1, $2, $3) ON CONFLICT (view, key) DO UPDATE SET value = EXCLUDED.value
     )
     INSERT INTO written (view, key, value, token, holder, process, at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [view, key, value, token, holder, process, historyNow()],
  );
}

/** The writes that the database has. Behind the fence, whose row orders them, they stand as they were committed. */
export async function readWritten(database: Query): Promise<EventOf<'access'>[]> {
  const { rows } = await database.query('SELECT * FROM written ORDER BY place');
  return rows.map(({ view, key, value, token, holder, process, at }) => ({
    type: 'access',
    operation: 'write',
    accepted: true,
    process,
    at,
    view,
    key,
    value: Number(value),
    token: Number(token),
    holder,
  }));
}
