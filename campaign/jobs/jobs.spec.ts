import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import pg from 'pg';
import { usePostgres } from '../../test/support/databases/use-databases.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import { workOff, type FleetSettings } from './support/fleet.ts';
import { createLedger, judge, type Verdict } from './support/ledger.ts';
import { startNats, startRabbitmq, type QueueServer } from './support/servers.ts';

const JOBS = Number(process.env.JOBS ?? 1_000);

const ALIKE = [0, 0, 0];

interface Case {
  readonly queue: FleetSettings['queue'];
  /** Starts the server of the queue; without it, the queue is in the database. */
  readonly start?: () => Promise<QueueServer>;
  readonly clocks?: readonly number[];
  readonly jobs?: number;
}

const startRedis = async (): Promise<QueueServer> => (await startRedisServers(1))[0]!;

const CASES: readonly (readonly [name: string, story: Case])[] = [
  ['BullMQ on Redis', { queue: 'BullMQ on Redis', start: startRedis }],
  ['BullMQ on PostgreSQL', { queue: 'BullMQ on PostgreSQL' }],
  [
    'BullMQ on PostgreSQL, with a clock 40 s ahead and one 40 s behind',
    { queue: 'BullMQ on PostgreSQL', clocks: [0, 40_000, -40_000] },
  ],
  ['pg-boss', { queue: 'pg-boss' }],
  ['graphile-worker', { queue: 'graphile-worker' }],
  ['NATS', { queue: 'NATS', start: startNats, jobs: JOBS / 4 }],
  ['RabbitMQ', { queue: 'RabbitMQ', start: startRabbitmq, jobs: JOBS / 4 }],
];

const sum = (verdicts: readonly Verdict[], kind: string) => {
  const own = verdicts.filter((verdict) => verdict.kind === kind);
  return own.reduce((all, each) => all + each.staleWrites + each.lostUpdates + each.notOnce, 0);
};

describe('jobs of processes that are stopped and blocked, into PostgreSQL and SQLite', () => {
  const database = usePostgres(async () => undefined);

  it.each(CASES)(
    'of %s are written once each, and never by a stale run; without the fence they are',
    async (name, { queue, start, clocks = ALIKE, jobs = JOBS }) => {
      const own = `jobs_${randomBytes(6).toString('hex')}`;
      await database.pool.query(`CREATE DATABASE ${own}`);
      const { href: databaseUrl } = new URL(`/${own}`, database.url);
      const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 });
      const folder = mkdtempSync(join(tmpdir(), 'jobs-'));
      const file = join(folder, 'jobs.db');
      const server = await start?.();
      try {
        await createLedger(pool, file, jobs);
        const queueUrl = server?.url ?? databaseUrl;
        const settings = { queue, queueUrl, databaseUrl, file, clocks, jobs };
        const report = await workOff({ ...settings, seed: jest.getSeed() }, pool);
        const verdicts = await judge(pool, file);
        process.stderr.write(`${name}: ${JSON.stringify(report)}\n`);
        for (const verdict of verdicts) process.stderr.write(`  ${JSON.stringify(verdict)}\n`);
        expect(sum(verdicts, 'fenced')).toBe(0);
        expect(sum(verdicts, 'plain')).toBeGreaterThan(0);
      } finally {
        await pool.end();
        await server?.stop();
        rmSync(folder, { recursive: true, force: true });
      }
    },
    1_200_000,
  );
});
