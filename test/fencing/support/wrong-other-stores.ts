import type { Redis } from 'ioredis';
import type { Pool, ResultSetHeader } from 'mysql2/promise';
import { StaleTokenError } from '../../../lib/core/errors.ts';
import type { FenceStore, FenceTicket } from '../../../lib/testing/index.ts';
import { firstText, SELECT, UPSERT } from './accounts.ts';
import { inMariadb } from './hand-written-transactions.ts';

/** MariaDB: takes "no row affected" for stale. With the driver's defaults a row that stays as it was counts, too. */
export function affectedRows(pool: Pool): FenceStore {
  const advance = async (
    connection: { query(sql: string, values: unknown[]): Promise<unknown> },
    { resource, token, holder }: FenceTicket,
  ): Promise<void> => {
    const [result] = (await connection.query(
      `INSERT INTO redlock_fence (resource, token, holder) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE
        holder = IF(VALUES(token) > token, VALUES(holder), holder), token = GREATEST(token, VALUES(token))`,
      [resource, token, holder],
    )) as [ResultSetHeader];
    if (result.affectedRows === 0) throw new StaleTokenError(resource, token);
  };
  return {
    claim: (ticket) => advance(pool, ticket),
    read: async ({ resource }) => {
      const [rows] = await pool.query(SELECT.questionMark, [resource]);
      return firstText(rows);
    },
    write: (ticket, text, pause) =>
      inMariadb(pool, async (connection) => {
        await advance(connection, ticket);
        await pause();
        await connection.query(UPSERT.mysql, [ticket.resource, text]);
      }),
  };
}

const TONUMBER_SCRIPT = `
local seen = redis.call('HMGET', KEYS[1], 't', 'h')
local token = tonumber(ARGV[1])
if seen[1] and (tonumber(seen[1]) > token or (tonumber(seen[1]) == token and seen[2] ~= ARGV[2])) then return 0 end
redis.call('HSET', KEYS[1], 't', ARGV[1], 'h', ARGV[2])
if ARGV[3] then redis.call('SET', KEYS[2], ARGV[3]) end
return 1`;

/** Redis: one script, but with Lua's numbers, which can't tell 2^53 from 2^53 + 1. */
export function redisToNumber(redis: Redis): FenceStore {
  const run = async (
    { resource, token, holder }: FenceTicket,
    ...text: string[]
  ): Promise<void> => {
    const accepted = await redis.eval(
      TONUMBER_SCRIPT,
      2,
      `wrong-fence:${resource}`,
      `wrong:${resource}`,
      token,
      holder,
      ...text,
    );
    if (accepted === 0) throw new StaleTokenError(resource, token);
  };
  return {
    claim: (ticket) => run(ticket),
    read: ({ resource }) => redis.get(`wrong:${resource}`),
    write: async (ticket, text, pause) => {
      await pause();
      await run(ticket, text);
    },
  };
}
