import type { Pool, PoolClient } from 'pg';
import { StaleTokenError } from '../../../lib/core/errors.ts';
import { postgresFence } from '../../../lib/fencing/index.ts';
import type { FenceStore, FenceTicket } from '../../../lib/testing/index.ts';
import { firstText, SELECT, tokenOf, UPSERT } from './accounts.ts';
import { inPostgres } from './hand-written-transactions.ts';

// Fences as they are found in articles and snippets, each wrong in one way. The kit must fail every one of them.

const refuse = ({ resource, token }: FenceTicket): never => {
  throw new StaleTokenError(resource, token);
};

const readAccount =
  (pool: Pool) =>
  async ({ resource }: Pick<FenceTicket, 'resource'>): Promise<string | null> =>
    firstText((await pool.query(SELECT.postgresql, [resource])).rows);

const REMEMBER = `INSERT INTO redlock_fence AS f (resource, token, holder) VALUES ($1, $2, $3)
ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder`;

/** SELECT the token, compare, then write: another holder passes between the two. */
export function checkThenWrite(pool: Pool): FenceStore {
  const check = async (client: Pool | PoolClient, ticket: FenceTicket): Promise<void> => {
    const { rows } = await client.query(
      'SELECT token, holder FROM redlock_fence WHERE resource = $1',
      [ticket.resource],
    );
    const [seen] = rows as { token: string; holder: string }[];
    if (!seen) return;
    const isNewer = BigInt(seen.token) > BigInt(ticket.token);
    if (isNewer || (seen.token === ticket.token && seen.holder !== ticket.holder)) refuse(ticket);
  };
  const remember = (
    client: Pool | PoolClient,
    { resource, token, holder }: FenceTicket,
  ): Promise<unknown> => client.query(REMEMBER, [resource, token, holder]);
  return {
    claim: async (ticket) => {
      await check(pool, ticket);
      await remember(pool, ticket);
    },
    read: readAccount(pool),
    write: (ticket, text, pause) =>
      inPostgres(pool, async (client) => {
        await check(client, ticket);
        await pause();
        await remember(client, ticket);
        await client.query(UPSERT.postgresql, [ticket.resource, text]);
      }),
  };
}

/** The right advance, but on a connection of its own: its row lock ends before the write. */
export function separateConnection(pool: Pool): FenceStore {
  const fence = postgresFence(pool);
  return {
    claim: (ticket) => fence.claim(tokenOf(ticket)),
    read: readAccount(pool),
    write: (ticket, text, pause) =>
      inPostgres(pool, async (client) => {
        await fence.claim(tokenOf(ticket));
        await pause();
        await client.query(UPSERT.postgresql, [ticket.resource, text]);
      }),
  };
}
