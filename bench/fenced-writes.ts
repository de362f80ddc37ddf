import { randomUUID } from 'node:crypto';
import type { Pool, PoolClient } from 'pg';
import { FencingToken } from '../lib/core/fencing-token.ts';
import { postgresFence } from '../lib/fencing/drivers/postgres-fence.ts';
import type { Fence } from '../lib/fencing/fence.ts';
import type { Contestant } from './contestant.ts';

const WRITE = 'UPDATE seat SET changes = changes + 1 WHERE id = $1';

export const FENCED_TRANSACTION = 'fence.transaction';
export const PREPARED_TRANSACTION = 'fence.transaction, prepared';

type SeatFence = Fence<PoolClient>;
type Write = (seat: string, token: FencingToken) => Promise<unknown>;

/** The tables both kinds of contestants write to. */
export async function createTables(pool: Pool): Promise<void> {
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, changes integer NOT NULL)');
  await pool.query(postgresFence(pool).ddl());
}

/** Contestants with one write in a transaction; the plain one first. */
export async function transactions(pool: Pool): Promise<Contestant[]> {
  const plain = (seat: string): Promise<void> =>
    transaction(pool, async (client) => void (await client.query(WRITE, [seat])));
  const fenced =
    (fence: SeatFence): Write =>
    (seat, token) =>
      fence.transaction(token, (client) => client.query(WRITE, [seat]));
  const longer = (seat: string): Promise<void> =>
    transaction(pool, async (client) => {
      await client.query('SELECT $1::text', [seat]);
      await client.query(WRITE, [seat]);
    });
  return [
    await contestant(pool, 'BEGIN, UPDATE, COMMIT', plain),
    await contestant(pool, 'the same again (noise)', plain),
    await contestant(pool, 'and an empty SELECT', longer),
    await contestant(pool, FENCED_TRANSACTION, fenced(postgresFence(pool))),
    await contestant(pool, PREPARED_TRANSACTION, fenced(postgresFence(pool, { prepared: true }))),
  ];
}

/** Contestant that writes its own row. At the end the row must show every write: one that was left out would be fast. */
async function contestant(pool: Pool, name: string, write: Write): Promise<Contestant> {
  let cycles = 0;
  await pool.query('INSERT INTO seat VALUES ($1, 0)', [name]);
  return {
    name,
    // The same row again and again, each time by a newer holder, as under a lock.
    cycle: async () => {
      cycles += 1;
      await write(name, new FencingToken(cycles, [name], randomUUID()));
    },
    close: async () => {
      const { rows } = await pool.query('SELECT changes FROM seat WHERE id = $1', [name]);
      const [{ changes }] = rows as [{ changes: number }];
      if (changes !== cycles) throw new Error(`${name}: ${changes} of ${cycles} writes are there`);
    },
  };
}

/** Transaction as the documentation of pg has it. */
async function transaction(pool: Pool, work: (client: PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await work(client);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}
