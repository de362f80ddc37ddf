import pg from 'pg';
import type { DatabaseServer } from '../test/support/databases/database-server.ts';
import {
  createPostgresDatabase,
  startPostgres,
} from '../test/support/databases/postgres-server.ts';
import type { Contestant } from './contestant.ts';
import {
  createTables,
  FENCED_TRANSACTION,
  PREPARED_TRANSACTION,
  transactions,
} from './fenced-writes.ts';
import { measure, type RoundPlan } from './measure.ts';
import type { Result } from './report.ts';

/** Statements that a fenced write may send beyond those of a plain one; no fewer either, or nothing is checked. */
const MORE_STATEMENTS: Readonly<Record<string, number>> = {
  [FENCED_TRANSACTION]: 1,
  [PREPARED_TRANSACTION]: 1,
};
const COUNTED_CYCLES = 20;

type ProgressOf = (scenario: string) => (share: number) => void;

/**
 * Cost of the fence in PostgreSQL over one connection, beside the same write without it. Bars hold for commits that
 * wait for the disk; without that wait only the round trips are left, which is shown but not judged.
 */
export async function fenceCost(progressOf: ProgressOf, plan: RoundPlan): Promise<Result[]> {
  const durable = await onServer('on', progressOf, plan);
  // The settings of a server that was named in DATABASE_URL are left alone.
  if (process.env.DATABASE_URL) return durable;
  return [...durable, ...(await onServer('off', progressOf, plan))];
}

async function onServer(
  fsync: 'on' | 'off',
  progressOf: ProgressOf,
  plan: RoundPlan,
): Promise<Result[]> {
  const server = await startPostgres({ fsync });
  try {
    return await inNewDatabase(server, async (pool) => {
      await requireSetting(pool, 'fsync', fsync);
      await requireSetting(pool, 'synchronous_commit', 'on');
      const sent = countStatements(pool);
      const contestants = await transactions(pool);
      const scenario = `PostgreSQL, transaction, fsync ${fsync}`;
      const counts = await statementsOf(contestants, sent);
      const measured = await measure(contestants, plan, progressOf(scenario));
      for (const each of contestants) await each.close();
      return [
        ...measured.map(({ name, micros, ratio }) => ({
          scenario,
          contestant: name,
          value: ratio,
          unit: '×' as const,
          micros,
        })),
        ...moreStatements(scenario, contestants, counts),
      ];
    });
  } finally {
    await server.stop();
  }
}

function moreStatements(
  scenario: string,
  contestants: readonly Contestant[],
  counts: readonly number[],
): Result[] {
  return contestants.flatMap(({ name }, index) => {
    const bar = MORE_STATEMENTS[name];
    if (bar === undefined) return [];
    const value = counts[index]! - counts[0]!;
    return [
      {
        scenario,
        contestant: `${name}: sent`,
        value,
        unit: 'statements',
        bar,
        exact: true,
      } as const,
    ];
  });
}

/** Statements per cycle. */
async function statementsOf(
  contestants: readonly Contestant[],
  sent: () => number,
): Promise<number[]> {
  const counts: number[] = [];
  for (const each of contestants) {
    // A key that is new in the table costs a statement more, once.
    await each.cycle('counted');
    const before = sent();
    for (let cycle = 0; cycle < COUNTED_CYCLES; cycle += 1) await each.cycle('counted');
    counts.push((sent() - before) / COUNTED_CYCLES);
  }
  return counts;
}

/** Counts the statements that the connections of the pool have sent since now; pg sends each in one round trip. */
function countStatements(pool: pg.Pool): () => number {
  let count = 0;
  pool.on('acquire', (client) => {
    if (Object.hasOwn(client, 'query')) return;
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      count += 1;
      return query(...args);
    }) as typeof client.query;
  });
  return () => count;
}

async function inNewDatabase<Value>(
  server: DatabaseServer,
  work: (pool: pg.Pool) => Promise<Value>,
): Promise<Value> {
  const name = `bench_${Date.now()}_${process.pid}`;
  const connectionString = await createPostgresDatabase(server, name);
  const pool = new pg.Pool({ connectionString, max: 1 });
  try {
    await createTables(pool);
    return await work(pool);
  } finally {
    await pool.end();
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query(`DROP DATABASE ${name}`);
    await client.end();
  }
}

async function requireSetting(pool: pg.Pool, name: string, wanted: string): Promise<void> {
  const { rows } = await pool.query(`SELECT current_setting($1) AS value`, [name]);
  const [{ value }] = rows as [{ value: string }];
  if (value === wanted) return;
  throw new Error(`${name} of this PostgreSQL is ${value}; this measurement needs ${wanted}.`);
}
