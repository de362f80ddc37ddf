import pg from 'pg';
import { Redlock } from '../lib/core/redlock.ts';
import { postgresFence } from '../lib/fencing/index.ts';
import { postgresNode } from '../lib/postgres/index.ts';
import { TTL_MS, type Contestant } from './contestant.ts';

export const ROW = 'lease row, a commit each';
export const OURS = 'this package';
const POOL_SIZE = 10;

/** A lock that can also be held by somebody else, and whose holder can write. */
export interface PostgresContestant extends Contestant {
  /** Locks, changes a row of the database, and releases. */
  write(key: string): Promise<void>;
  /** Asks once for a key that another client holds. */
  refused(): Promise<void>;
  hold(key: string): Promise<void>;
}

/** Both, with connections of their own to the database that `prepareDatabase` made. */
export async function postgresContestants(url: string): Promise<PostgresContestant[]> {
  const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE });
  pool.on('error', () => undefined);
  return [await leaseRows(pool), await ours(pool, url)];
}

export async function prepareDatabase(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url });
  await pool.query(
    `CREATE TABLE lease (key text PRIMARY KEY, holder text, ends timestamptz);
     INSERT INTO lease VALUES ('held', 'somebody', 'infinity');
     CREATE TABLE seat (id text PRIMARY KEY, bookings integer NOT NULL DEFAULT 0);
     INSERT INTO seat SELECT 'seat' || n FROM generate_series(0, 9) AS n`,
  );
  await pool.query(postgresNode(pool).ddl());
  await pool.end();
}

/** Callers that take keys for so long: how often, and how long one of them waited at most. */
export async function takeFor(
  contestant: PostgresContestant,
  keys: readonly string[],
  forMs: number,
) {
  const cpu = process.cpuUsage();
  const endsAtMs = performance.now() + forMs;
  let [count, longestMs] = [0, 0];
  const caller = async (key: string): Promise<void> => {
    while (performance.now() < endsAtMs) {
      const startedAtMs = performance.now();
      await contestant.hold(key);
      longestMs = Math.max(longestMs, performance.now() - startedAtMs);
      count += 1;
    }
  };
  await Promise.all(keys.map(caller));
  const { user, system } = process.cpuUsage(cpu);
  return { count, longestMs, cpu: user + system };
}

export type Taken = Awaited<ReturnType<typeof takeFor>>;

async function leaseRows(pool: pg.Pool): Promise<PostgresContestant> {
  const take = async (key: string, holder: string) => {
    const { rowCount } = await pool.query(
      `INSERT INTO lease VALUES ($1, $2, clock_timestamp() + interval '10 seconds')
       ON CONFLICT (key) DO UPDATE SET holder = EXCLUDED.holder, ends = EXCLUDED.ends
       WHERE lease.holder IS NULL OR lease.ends < clock_timestamp()`,
      [key, holder],
    );
    return rowCount === 1;
  };
  const free = (key: string, holder: string) =>
    pool.query('UPDATE lease SET holder = NULL WHERE key = $1 AND holder = $2', [key, holder]);
  let holders = 0;
  const hold = async (key: string, work?: () => Promise<unknown>): Promise<void> => {
    const holder = String((holders += 1));
    while (!(await take(key, holder))) await new Promise((resolve) => setTimeout(resolve, 2));
    await work?.();
    await free(key, holder);
  };
  return {
    name: ROW,
    cycle: (key) => hold(key),
    hold: (key) => hold(key),
    write: (key) => hold(key, () => pool.query(BOOK, [key])),
    refused: async () => {
      if (await take('held', 'another')) throw new Error('It was held.');
    },
    close: async () => undefined,
  };
}

const BOOK = 'UPDATE seat SET bookings = bookings + 1 WHERE id = $1';

async function ours(pool: pg.Pool, connectionString: string): Promise<PostgresContestant> {
  const open = async () => {
    const listen = () => new pg.Client({ connectionString });
    const redlock = new Redlock([postgresNode(pool, { listen })], { ttl: TTL_MS });
    redlock.open();
    if (!(await redlock.ready(10_000))) throw new Error('The database gives no locks.');
    return redlock;
  };
  const [redlock, somebody] = [await open(), await open()];
  const fence = postgresFence(pool);
  const held = `held:${process.pid}`;
  await somebody.acquire(held);
  return {
    name: OURS,
    cycle: async (key) => {
      const lock = await redlock.acquire(key);
      await lock.release();
    },
    hold: (key) => redlock.withLock(key, () => undefined, { wait: '10m' }),
    write: (key) =>
      redlock.withLock(key, async ({ token }) => {
        await fence.transaction(token, (client) => client.query(BOOK, [key]));
      }),
    refused: () =>
      redlock.acquire(held, { wait: 0 }).then(
        () => Promise.reject(new Error('It was held.')),
        () => undefined,
      ),
    close: async () => {
      await redlock.close();
      await somebody.close();
      await pool.end();
    },
  };
}
