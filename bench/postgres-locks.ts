import pg from 'pg';
import { Redlock } from '../lib/core/redlock.ts';
import { postgresFence } from '../lib/fencing/index.ts';
import { postgresNode } from '../lib/postgres/index.ts';
import { startPostgres } from '../test/support/databases/postgres-server.ts';
import { TTL_MS, type Contestant } from './contestant.ts';
import { measure, median, takeTurns } from './measure.ts';
import type { ProgressOf } from './progress.ts';
import type { Result } from './report.ts';

const ROW = 'lease row, a commit each';
const OURS = 'this package';
const CALLERS = 64;
const POOL_SIZE = 10;
const PLAN = { rounds: 15, warmUpRounds: 3, cycles: 60 };

/** A lock that can also be held by somebody else, and whose holder can write. */
interface PostgresContestant extends Contestant {
  /** Locks, changes a row of the database, and releases. */
  write(key: string): Promise<void>;
  /** Asks once for a key that another client holds. */
  refused(): Promise<void>;
  hold(key: string): Promise<void>;
}

/**
 * Locks in PostgreSQL beside the least that survives a pooler: a row for each key, taken and freed by a statement each. Every commit
 * waits for the disk.
 */
export async function postgresLocks(progressOf: ProgressOf): Promise<Result[]> {
  const server = await startPostgres({ fsync: 'on' });
  const pool = new pg.Pool({ connectionString: server.url, max: POOL_SIZE });
  pool.on('error', () => undefined);
  try {
    await pool.query(
      `CREATE TABLE lease (key text PRIMARY KEY, holder text, ends timestamptz);
       CREATE TABLE seat (id text PRIMARY KEY, bookings integer NOT NULL DEFAULT 0);
       INSERT INTO seat SELECT 'seat' || n FROM generate_series(0, 9) AS n`,
    );
    await pool.query(postgresNode(pool).ddl());
    const contestants = [await leaseRows(pool), await ours(pool, server.url)];
    const results: Result[] = [];
    for (const [scenario, bar, pick] of ALONE) {
      const cycles = contestants.map((each) => ({ ...each, cycle: () => pick(each) }));
      const measured = await measure(cycles, PLAN, progressOf(scenario));
      for (const { name, micros, ratio } of measured)
        results.push({
          scenario,
          contestant: name,
          value: ratio,
          unit: '×',
          micros,
          ...(name === OURS && { bar }),
        });
    }
    for (const [scenario, key] of TOGETHER)
      results.push(...(await throughput(scenario, key, contestants, progressOf)));
    for (const each of contestants) await each.close();
    return results;
  } finally {
    await pool.end();
    await server.stop();
  }
}

const ALONE: readonly (readonly [string, number, (each: PostgresContestant) => Promise<void>])[] = [
  ['PostgreSQL, acquire and release', 0.95, (each) => each.cycle('alone')],
  ['PostgreSQL, lock, write and release', 0.85, (each) => each.write('seat1')],
  ['PostgreSQL, refused', 0.35, (each) => each.refused()],
];

const TOGETHER: readonly (readonly [string, (caller: number) => string])[] = [
  [`PostgreSQL, ${CALLERS} callers, a key each`, (caller) => `key${caller}`],
  [`PostgreSQL, ${CALLERS} callers for one key`, () => 'one key'],
];

/** Locks in a second, as a multiple of those of the first contestant in the same round. */
async function throughput(
  scenario: string,
  keyOf: (caller: number) => string,
  contestants: readonly PostgresContestant[],
  progressOf: ProgressOf,
): Promise<Result[]> {
  const take = async (contestant: PostgresContestant) => {
    const cpu = process.cpuUsage();
    const endsAtMs = performance.now() + 1_000;
    let count = 0;
    const caller = async (_: unknown, index: number): Promise<void> => {
      for (; performance.now() < endsAtMs; count += 1) await contestant.hold(keyOf(index));
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    const { user, system } = process.cpuUsage(cpu);
    return { count, cpu: (user + system) / count };
  };
  const taken = await takeTurns(
    contestants,
    { rounds: 7, warmUpRounds: 1 },
    take,
    progressOf(scenario),
  );
  return contestants.map(({ name }, index) => ({
    scenario,
    contestant: name,
    value: median(taken[index]!.map(({ count }, round) => count / taken[0]![round]!.count)),
    unit: '× throughput',
    clientCpu: median(taken[index]!.map(({ cpu }) => cpu)),
  }));
}

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
  await take('held', 'somebody');
  await pool.query("UPDATE lease SET ends = 'infinity' WHERE key = 'held'");
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
  await somebody.acquire('held');
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
      redlock.acquire('held', { wait: 0 }).then(
        () => Promise.reject(new Error('It was held.')),
        () => undefined,
      ),
    close: async () => {
      await redlock.close();
      await somebody.close();
    },
  };
}
