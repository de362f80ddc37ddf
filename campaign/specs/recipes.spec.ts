import 'reflect-metadata';
import { getQueueToken } from '@nestjs/bullmq';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { Redlock } from '../../lib/core/redlock.ts';
import { postgresFence, type FencingToken } from '../../lib/fencing/index.ts';
import { createRedisNode } from '../../lib/redis/client/create-redis-node.ts';
import { closeAll, closeLater, silentLogger } from '../../test/nest/support/applications.ts';
import { usePostgres } from '../../test/support/databases/use-databases.ts';
import { eventually } from '../../test/support/eventually.ts';
import { useRedisServers } from '../../test/support/redis-servers/use-redis-servers.ts';
import {
  removeProjects,
  runTests,
  writePrograms,
  type ConsumerProject,
} from '../../test/docs/consumer-project.ts';
import { blocksOf, readPage } from '../../test/docs/pages.ts';

const PAGE = 'docs/recipes.md';

/** The tables of the recipes, as their comments have them. */
const TABLES = blocksOf(readPage(PAGE)).flatMap(({ code }) =>
  [...code.matchAll(/CREATE TABLE .+(?= \*\/)/g)].map(([table]) => table),
);

describe('the recipes, on three Redis servers, one for a queue, and PostgreSQL', () => {
  afterEach(closeAll);
  // The pool ends before the database stops.
  afterAll(async () => {
    await (await recipe('locking.module.ts')).pool!.end();
    removeProjects();
  });
  // The guard of new servers, which the recipes don't shorten, is nearly over when the database and the programs are there.
  const servers = useRedisServers(4, {}, async (started) => {
    const redlock = new Redlock(started.slice(0, 3).map(({ url }) => createRedisNode(url)));
    redlock.open();
    await redlock.ready(20_000);
    await redlock.close();
  });
  const database = usePostgres(async (pool) => {
    for (const table of [postgresFence(pool).ddl(), ...TABLES]) await pool.query(table);
    await pool.query("INSERT INTO seat VALUES ('12A'), ('12B'), ('12C')");
  });
  let recipe: (file: string) => Promise<Record<string, any>>;
  let project: ConsumerProject;
  let wiring: ConsumerProject;

  beforeAll(async () => {
    process.env.DATABASE_URL = database.url;
    const urls = servers.map(({ url }) => url);
    project = await writePrograms(PAGE, urls);
    recipe = (file) => project.load(file);
    wiring = await writePrograms('docs/fencing/nest.md', urls);
  });

  /** Does to a lock what a pause of its holder beyond the ttl comes to. */
  async function forgetLock(key: string): Promise<void> {
    const clients = servers.map(({ url }) => new Redis(url));
    await Promise.all(clients.map((client) => client.del(`lock:${key}`)));
    await Promise.all(clients.map((client) => client.quit()));
  }

  /** Two processes of the fleet. */
  async function startTwo(module: unknown): Promise<[INestApplication, INestApplication]> {
    const start = async () => {
      const building = Test.createTestingModule({ imports: [module as never] });
      const compiled = await building.setLogger(silentLogger).compile();
      const app = closeLater(compiled.createNestApplication({ logger: silentLogger }));
      return app.init();
    };
    return [await start(), await start()];
  }

  it('lose no job when one of the workers shuts down', async () => {
    const { TransfersModule } = await recipe('transfers.ts');
    const apps = await startTwo(TransfersModule);
    const queue: Queue = apps[1].get(getQueueToken('transfers'));
    const completed = await queue.getCompletedCount();
    const jobs = Array.from({ length: 300 }, (_, index) => ({
      name: 'transfer',
      data: { id: `of shutdown ${index}`, account: `of shutdown ${index % 30}`, cents: 1 },
    }));
    await queue.addBulk(jobs);
    await eventually(async () =>
      expect(await queue.getCompletedCount()).toBeGreaterThan(completed + 20),
    );
    await apps[0].close();
    await eventually(async () => {
      const [done, failed] = [await queue.getCompletedCount(), await queue.getFailedCount()];
      expect(done + failed).toBe(completed + jobs.length);
    });
    expect(await queue.getFailedCount()).toBe(0);
    await queue.obliterate({ force: true });
  });

  it('book a seat, and refund a customer whose booking came too late', async () => {
    const { SeatsModule, Seats, Payments } = await recipe('seats.ts');
    const [app, another] = await startTwo(SeatsModule);
    await expect(app.get(Seats).book('12A', 'ana')).resolves.toBe('booked');
    await expect(another.get(Seats).book('12A', 'ben')).resolves.toBe('taken');
    const refunds: string[] = [];
    Object.assign(app.get(Payments), {
      refund: async (payment: string) => refunds.push(payment),
      charge: async (customer: string) => {
        // The lock is lost during the payment, and ben is quicker.
        await forgetLock('seat:12B');
        await another.get(Seats).book('12B', 'ben');
        return `payment of ${customer}`;
      },
    });
    const late = app.get(Seats).book('12B', 'ana');
    await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(refunds).toEqual(['payment of ana']);
    const { rows } = await database.pool.query(
      "SELECT customer FROM seat WHERE id IN ('12A', '12B') ORDER BY id",
    );
    expect(rows).toEqual([{ customer: 'ana' }, { customer: 'ben' }]);
  });

  it('show a late write that is rejected, in a test that passes twice and leaves a fence that can be pruned', async () => {
    await expect(runTests(project, 'seats.spec.ts', 2)).resolves.toBe(1);
    await expect(postgresFence(database.pool, { maxAge: '1h' }).prune()).resolves.toBe(0);
  });

  it('run the jobs of one account one after the other, and those of two together', async () => {
    const { TransfersModule, Transfers } = await recipe('transfers.ts');
    const apps = await startTwo(TransfersModule);
    const queue: Queue = apps[0].get(getQueueToken('transfers'));
    let sentBack = 0;
    const running: string[] = [];
    const seen = new Set<string>();
    for (const app of apps) {
      const transfers = app.get(Transfers);
      const { fence } = transfers;
      const transaction = async (token: FencingToken, work: unknown) => {
        running.push(...token.keys);
        seen.add(running.toSorted().join());
        // The first job of each account goes on when all others have found their account busy.
        await eventually(async () => {
          expect(seen).toContain('account:one,account:two');
          sentBack = Math.max(sentBack, await queue.getDelayedCount());
          expect(sentBack).toBe(3);
        });
        await fence.transaction(token, work);
        running.splice(running.indexOf(token.keys[0]!), 1);
      };
      transfers.fence = { transaction };
    }
    const jobs = ['one', 'one', 'one', 'two', 'two'].map((account, index) => ({
      name: 'transfer',
      data: { id: `of accounts ${index}`, account, cents: 5 },
    }));
    await queue.addBulk(jobs);
    await eventually(async () => expect(await queue.getCompletedCount()).toBe(5));
    const together = [...seen].filter((keys) => keys.includes(','));
    expect(together).toEqual(['account:one,account:two']);
    const { rows } = await database.pool.query(
      "SELECT account, sum(cents) FROM transfer WHERE account IN ('one', 'two') GROUP BY account ORDER BY account",
    );
    expect(rows).toEqual([
      { account: 'one', sum: '15' },
      { account: 'two', sum: '10' },
    ]);
    await queue.obliterate({ force: true });
  });

  it('do the work of a stalled job once, and not again what a dead worker had committed', async () => {
    const { TransfersModule, TransferProcessor, Transfers, Bank } = await recipe('transfers.ts');
    // This is the effect of a blocked event loop: BullMQ's lock of the job is not renewed. All of it comes sooner than by default.
    const stalling = { lockDuration: 500, stalledInterval: 500, skipLockRenewal: true };
    Reflect.defineMetadata('bullmq:worker_metadata', stalling, TransferProcessor);
    const apps = await startTwo(TransfersModule);
    // A job that waits for the restart guard of the new servers would stall once too often.
    const { LockService } = (await recipe('entries.ts')).main;
    for (const app of apps) await app.get(LockService).withLock('warm', () => undefined);
    const queue: Queue = apps[0].get(getQueueToken('transfers'));
    const written = () =>
      database.pool.query("SELECT id FROM transfer WHERE account = 'stalled' ORDER BY id");
    const asked: string[] = [];
    const outcomes: string[] = [];
    for (const app of apps) {
      app.get(TransferProcessor).logger = silentLogger;
      const transfers = app.get(Transfers);
      const { fence } = transfers;
      const transaction = (token: FencingToken, work: unknown) =>
        fence.transaction(token, work).then(
          () => outcomes.push('written'),
          (error: { code: string }) => {
            outcomes.push(error.code);
            throw error;
          },
        );
      transfers.fence = { transaction };
      app.get(Bank).transfer = async (id: string) => {
        asked.push(id);
        if (asked.length > 1) return;
        // The first worker is paused: its lock ends, too, and it goes on when another one has done the work.
        await forgetLock('account:stalled');
        await eventually(async () => expect((await written()).rows).toHaveLength(1));
      };
    }
    await queue.add('transfer', { id: 'o1', account: 'stalled', cents: 5 });
    await eventually(() => expect(outcomes).toEqual(['written', 'STALE_TOKEN']));
    expect(asked).toEqual(['o1', 'o1']);

    await database.pool.query("INSERT INTO transfer VALUES ('o2', 'stalled', 7)");
    await queue.add('transfer', { id: 'o2', account: 'stalled', cents: 7 });
    await eventually(async () => expect(await queue.getCompletedCount()).toBe(2));
    expect(asked).toHaveLength(2);
    expect((await written()).rows).toEqual([{ id: 'o1' }, { id: 'o2' }]);
  });

  it('work in the application of docs/fencing/nest.md, which gets its pool from another module', async () => {
    const { AppModule } = await wiring.load('app.module.ts');
    const { SeatService } = await wiring.load('seat.service.ts');
    // The pool ends after both applications, which were given the one pool of their file, and also when the test fails.
    const pool: { end?: () => Promise<void> } = {};
    closeLater({ close: async () => pool.end?.() });
    const [app, another] = await startTwo(AppModule);
    pool.end = () => app.get(Pool, { strict: false }).end();
    await app.get(SeatService).book('12C', 'ana');
    await expect(another.get(SeatService).book('12C', 'ben')).rejects.toThrow('taken');
    const { rows } = await database.pool.query("SELECT customer FROM seat WHERE id = '12C'");
    expect(rows).toEqual([{ customer: 'ana' }]);
  });
});
