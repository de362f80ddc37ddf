import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { cronDdl } from '../../lib/schedule/index.ts';
import { usePostgres } from '../../test/support/databases/use-databases.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import { Fleet } from './support/fleet.ts';
import { INTERVAL_MS } from './support/settings.ts';

const MINUTES = Number(process.env.CRON_MINUTES ?? 10);
/** Longer than what was begun last takes, with a lock that must expire first. */
const LIMIT_MS = 300_000;

interface Verdict {
  readonly scheduled: number;
  readonly once: number;
  readonly twice: number;
  readonly missed: number;
}

/** What was committed for the times of all jobs in this span. */
async function judge(
  pool: pg.Pool,
  kind: string,
  jobs: number,
  fromMs: number,
  toMs: number,
): Promise<Verdict> {
  const select =
    'SELECT job, scheduled, count(*)::int AS count FROM effect WHERE kind = $1 GROUP BY 1, 2';
  const { rows } = await pool.query(select, [kind]);
  const counts = new Map<string, number>();
  for (const { job, scheduled, count } of rows) counts.set(`${job} ${scheduled}`, count);
  const found: number[] = [];
  for (let job = 0; job < jobs; job += 1)
    for (let at = fromMs + (job % 10) * 1_000; at < toMs; at += INTERVAL_MS)
      found.push(counts.get(`${job} ${at}`) ?? 0);
  const having = (isMeant: (count: number) => boolean) => found.filter(isMeant).length;
  return {
    scheduled: found.length,
    once: having((count) => count === 1),
    twice: having((count) => count > 1),
    missed: having((count) => count === 0),
  };
}

describe('jobs of five processes, of which some are killed, stopped and cut off, and one has a clock that steps', () => {
  const database = usePostgres(async () => undefined);

  // A lock in a database waits for its disk.
  it.each([
    ['Redis', 25],
    ['PostgreSQL alone', 8],
  ])(
    'run once for each of their times, with locks in %s; without the ledger they do not',
    async (home, jobs) => {
      const own = `cron_${randomBytes(6).toString('hex')}`;
      await database.pool.query(`CREATE DATABASE ${own}`);
      const { href: databaseUrl } = new URL(`/${own}`, database.url);
      const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 });
      const [redis] = home === 'Redis' ? await startRedisServers(1, { own: true }) : [];
      const durationMs = MINUTES * 60_000;
      const settings = { redisUrl: redis?.url, databaseUrl, jobs, durationMs };
      const fleet = new Fleet({ ...settings, seed: jest.getSeed() });
      try {
        await pool.query(postgresNode(pool).ddl());
        await pool.query(cronDdl(postgresFence(pool)));
        await pool.query(
          'CREATE TABLE effect (kind text, job integer, scheduled bigint, host integer, at timestamptz DEFAULT clock_timestamp())',
        );
        await fleet.start();
        // Clocks behind have seen it, too.
        const fromMs = (Math.floor(Date.now() / INTERVAL_MS) + 1) * INTERVAL_MS;
        await fleet.play();
        const toMs = Math.floor(Date.now() / INTERVAL_MS) * INTERVAL_MS;
        const endMs = performance.now() + LIMIT_MS;
        let ledger = await judge(pool, 'ledger', jobs, fromMs, toMs);
        while (ledger.missed > 0 && performance.now() < endMs) {
          await sleep(1_000);
          ledger = await judge(pool, 'ledger', jobs, fromMs, toMs);
        }
        const recipe = await judge(pool, 'recipe', jobs, fromMs, toMs);
        const runs = await pool.query(
          'SELECT outcome, attempt, count(*)::int FROM redlock_run GROUP BY 1, 2',
        );
        const said = { ...fleet.report, ledger, recipe, runs: runs.rows };
        process.stderr.write(`${home}: ${JSON.stringify(said)}\n`);
        expect(ledger).toEqual({ ...ledger, once: ledger.scheduled, twice: 0, missed: 0 });
        expect(recipe.twice + recipe.missed).toBeGreaterThan(0);
      } finally {
        await fleet.stop();
        await pool.end();
        await redis?.stop();
      }
    },
    3_600_000,
  );
});
