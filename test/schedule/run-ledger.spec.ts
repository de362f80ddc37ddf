import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import Libsql from 'libsql';
import type { PoolClient } from 'pg';
import { sqliteFence, StaleTokenError } from '../../lib/fencing/index.ts';
import { RedlockModule } from '../../lib/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { CronRuns, cronDdl, FencedCron, type CronRun } from '../../lib/schedule/index.ts';
import { RunLedger } from '../../lib/schedule/run-ledger.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { EACH_CLIENT, useClients } from '../fencing/support/use-clients.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';

const at = (text: string) => new Date(`2026-06-01T${text}:00.000Z`);
const RULES = { isRepeated: true };

describe('the ledger of runs', () => {
  const openClient = useClients();

  it.each(EACH_CLIENT)(
    'over %s on %s lets a run begin once, and the last holder end it',
    async (client, on) => {
      const { fence, run: inTransaction, execute, close } = await openClient(client, on);
      try {
        // A transaction is where every client runs a statement.
        for (const sql of [fence.ddl(), cronDdl(fence), cronDdl(fence)])
          await inTransaction(async (transaction) => execute(transaction, sql));
        const ledger = new RunLedger('test', fence);
        const name = `jöb ${client}`;
        const grant = (value: number) => createFencingToken(`cron:${name}`, value);
        const run = { name, scheduled: at('03:00') };
        const [first, second, third] = [grant(1), grant(2), grant(3)];

        expect(await ledger.begin(run, first, RULES)).toEqual({ attempt: 1, previous: undefined });
        expect(await ledger.isSettled(run)).toBe(false);
        // The second has the lock of the job, so the first has lost it.
        expect(await ledger.begin(run, second, RULES)).toEqual({ attempt: 2, previous: undefined });
        const late = ledger.end(run, first, 'done', () => 'written');
        await expect(late).rejects.toThrow(StaleTokenError);
        expect(await ledger.isSettled(run)).toBe(false);
        const failing = ledger.end(run, second, 'done', () =>
          Promise.reject(new Error('no paper')),
        );
        await expect(failing).rejects.toThrow('no paper');
        expect(await ledger.isSettled(run)).toBe(false);
        const ending = ledger.end(run, second, 'done', (tx) => execute(tx, 'ROLLBACK'));
        await expect(ending).rejects.toBeDefined();
        expect(await ledger.isSettled(run)).toBe(false);
        await ledger.end(run, second, 'done', () => undefined);
        expect(await ledger.isSettled(run)).toBe(true);
        const again = ledger.end(run, second, 'done', () => 'written');
        await expect(again).rejects.toThrow(/has ended already \(done\), so nothing was written/);

        expect(await ledger.begin(run, third, RULES)).toBeUndefined();
        const next = { name, scheduled: at('04:00') };
        expect(await ledger.begin(next, third, { ...RULES, isBeforeStart: true })).toEqual({
          attempt: 1,
          previous: at('03:00'),
        });
        const dates = { started: expect.any(Date), ended: expect.any(Date) };
        expect(await ledger.list(name, 9)).toEqual([
          {
            name,
            scheduled: at('04:00'),
            ...dates,
            ended: undefined,
            outcome: undefined,
            attempt: 1,
            token: 3,
            holder: third.holder,
          },
          {
            name,
            scheduled: at('03:00'),
            ...dates,
            outcome: 'done',
            attempt: 2,
            token: 2,
            holder: second.holder,
          },
        ]);
        expect(await ledger.list(name.toUpperCase(), 9)).toEqual([]);
        expect(await ledger.first(name)).toEqual(at('03:00'));
      } finally {
        await close();
      }
    },
  );

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
