import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { postgresNode } from 'nestjs-fenced-lock/postgres';
import { Pool } from 'pg';
import type { Cleanup } from './cleanup.ts';
import { seatFence } from './seats.ts';

/**
 * The tables, in a schema of their own that is created again at every start.
 *
 * `ticket` has no unique key on the seat on purpose. One would save this one table, but no key protects the payment provider, a
 * counter, or a decision that was made on what was read before: the fence protects whatever the holder writes.
 */
const TABLES = `
DROP SCHEMA IF EXISTS seat_sample CASCADE;
CREATE SCHEMA seat_sample;
CREATE TABLE seat_sample.ticket (position bigserial PRIMARY KEY, seat text NOT NULL, customer text NOT NULL);
-- The books of the payment provider: another company, which our transactions can't roll back.
CREATE TABLE seat_sample.payment (
  id bigserial PRIMARY KEY, seat text NOT NULL, customer text NOT NULL, refunded boolean NOT NULL DEFAULT false);
`;

interface Row {
  readonly seat: string;
  readonly customer: string;
}

/** What the database says about some seats: the only witness that counts. */
export interface Books {
  readonly tickets: readonly Row[];
  readonly payments: readonly (Row & { readonly refunded: boolean })[];
}

/** PostgreSQL as the conductor reads it. */
export class Database {
  constructor(
    readonly url: string,
    private readonly pool: Pool,
  ) {}

  async books(seats: readonly string[]): Promise<Books> {
    const ask = (columns: string, table: string, order: string) =>
      this.pool.query(
        `SELECT ${columns} FROM seat_sample.${table} WHERE seat = ANY($1::text[]) ORDER BY ${order}`,
        [seats],
      );
    const tickets = await ask('seat, customer', 'ticket', 'position');
    const payments = await ask('seat, customer, refunded', 'payment', 'id');
    return { tickets: tickets.rows, payments: payments.rows };
  }
}

/** Uses `DATABASE_URL`, or starts an embedded PostgreSQL, and creates the tables. */
export async function openDatabase(cleanup: Cleanup): Promise<Database> {
  const url = process.env['DATABASE_URL'] || (await startEmbedded(cleanup));
  const pool = new Pool({ connectionString: url, max: 2 }).on('error', () => undefined);
  cleanup.adopt(() => pool.end());
  try {
    await pool.query(TABLES + postgresNode(seatFence(pool)).ddl());
  } catch (error) {
    const reason = error instanceof Error ? error.message || error.name : String(error);
    throw new Error(
      `PostgreSQL can't be used: ${reason}. Check DATABASE_URL; its user must be allowed to create a schema (seat_sample).`,
      { cause: error },
    );
  }
  return new Database(url, pool);
}

async function startEmbedded(cleanup: Cleanup): Promise<string> {
  const child = fork(fileURLToPath(new URL('database-process.ts', import.meta.url)));
  const exit = once(child, 'exit');
  // Nothing of it is worth saving.
  cleanup.adopt(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const [message] = (await Promise.race([
    once(child, 'message'),
    exit.then(() => [{ error: 'its process ended' }]),
  ])) as [{ readonly url: string } | { readonly error: string }];
  if ('url' in message) return message.url;
  throw new Error(
    `The embedded PostgreSQL did not start: ${message.error}. Run 'npm ci' again, or set DATABASE_URL to a PostgreSQL server.`,
  );
}
