import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import Libsql from 'libsql';
import type { PoolClient } from 'pg';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { RedlockModule } from '../../lib/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { CronRuns, cronDdl, FencedCron, type CronRun } from '../../lib/schedule/index.ts';
import { RunLedger } from '../../lib/schedule/run-ledger.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { EACH_CLIENT, useClients } from '../fencing/support/use-clients.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { at, itKeepsRuns, RULES } from './support/ledger-promises.ts';

describe('the ledger of runs', () => {
  const openClient = useClients();

  for (const [name, on] of EACH_CLIENT) itKeepsRuns(`${name} on ${on}`, () => openClient(name, on));

  it('forgets runs after 90 days, and keeps those of other jobs', async () => {
    const database = new Libsql(':memory:');
    const fence = sqliteFence(database);
    database.exec(`${fence.ddl()} ${cronDdl(fence)}`);
    const ledger = new RunLedger('test', fence);
    const begin = (name: string, scheduled: Date, value: number) =>
      ledger.begin({ name, scheduled }, createFencingToken(`cron:${name}`, value), RULES);
    await begin('old', at('03:00'), 1);
    await begin('other', at('03:00'), 1);
    await begin('old', new Date(+at('03:00') + 90 * 86_400_000), 2);
    expect(await ledger.list('old', 9)).toHaveLength(2);
    await begin('old', new Date(+at('03:00') + 91 * 86_400_000), 3);
    expect(await ledger.list('old', 9)).toHaveLength(2);
    expect(await ledger.list('other', 9)).toHaveLength(1);
  });

  it('forgets nothing for a host whose clock is a year ahead', async () => {
    const database = new Libsql(':memory:');
    const fence = sqliteFence(database);
    database.exec(`${fence.ddl()} ${cronDdl(fence)}`);
    const ledger = new RunLedger('test', fence);
    const begin = (scheduled: Date, value: number) =>
      ledger.begin({ name: 'job', scheduled }, createFencingToken('cron:job', value), RULES);
    const now = +at('03:00') * 1_000;
    await begin(at('03:00'), now);
    await begin(new Date('2027-06-01T03:00:00Z'), now + 1);
    expect(await ledger.list('job', 9)).toHaveLength(2);
  });

  it('is refused without a fence in an SQL database', () => {
    expect(() => cronDdl(undefined)).toThrow(/cronDdl.*needs a fence in an SQL database/s);
  });
});

/** Each second: what runs here has no fixed time, so only what becomes of it counts. */
@Injectable()
class Seconds {
  constructor(readonly runs: CronRuns) {}

  @FencedCron('* * * * * *', { name: 'seconds' })
  async tick(run: CronRun<PoolClient>) {
    await run.commit((tx) => tx.query('INSERT INTO tick VALUES ($1)', [run.scheduled]));
  }
}

describe('with PostgreSQL alone', () => {
  const database = usePostgres(async (pool) => {
    await pool.query(postgresNode(pool).ddl());
    await pool.query(cronDdl(postgresNode(pool).fence));
    await pool.query('CREATE TABLE tick (scheduled timestamptz PRIMARY KEY)');
  });
  afterEach(closeAll);

  it('jobs run once in the fleet, and what they write is committed with the end of the run', async () => {
    const start = async () => {
      const imports = [RedlockModule.forRoot({ nodes: [postgresNode(database.pool)] })];
      const building = Test.createTestingModule({ imports, providers: [Seconds, CronRuns] });
      const module = closeLater(await building.setLogger(silentLogger).compile());
      await module.init();
      return module.get(Seconds);
    };
    const hosts = [await start(), await start(), await start()];
    const ticks = async () =>
      (await database.pool.query('SELECT scheduled FROM tick')).rows.map(
        ({ scheduled }) => +scheduled,
      );
    await eventually(async () => expect((await ticks()).length).toBeGreaterThan(2));
    await closeAll();
    const runs = await hosts[0]!.runs.list('seconds');
    const done = runs.filter(({ outcome }) => outcome === 'done');
    expect(done.map(({ scheduled }) => +scheduled).reverse()).toEqual(await ticks());
    expect(new Set(runs.map(({ outcome }) => outcome))).toEqual(new Set(['done', 'skipped']));
  });
});
