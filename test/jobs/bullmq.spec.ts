import 'reflect-metadata';
import { once } from 'node:events';
import { BullModule, getQueueToken } from '@nestjs/bullmq';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Job, Queue } from 'bullmq';
import { postgresFence } from '../../lib/fencing/index.ts';
import { removeProjects, writePrograms } from '../docs/consumer-project.ts';
import { blocksOf, readPage } from '../docs/pages.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

const PAGE = 'docs/jobs.md';
const [, TABLE] = /(CREATE TABLE .+)(?= \*\/)/.exec(blocksOf(readPage(PAGE))[0]!.code)!;

describe('the program of docs/jobs.md, on BullMQ', () => {
  const servers = useRedisServers(1);
  const database = usePostgres(async (pool) => {
    await pool.query(postgresFence(pool).ddl());
    await pool.query(TABLE!);
  });
  let program: Record<string, any>;
  let fencing: Record<string, any>;
  beforeAll(async () => {
    const project = await writePrograms(PAGE);
    program = await project.load('reports.ts');
    ({ fencing } = await project.load('entries.ts'));
  });
  afterEach(closeAll);
  afterAll(removeProjects);

  /** A worker whose runs end one by one, when they are given a total. */
  async function startWorker(options: object) {
    const { ReportProcessor } = program;
    Reflect.defineMetadata('bullmq:worker_metadata', options, ReportProcessor);
    const useValue = fencing.postgresFence(database.pool, { maxAge: '90d' });
    const building = Test.createTestingModule({
      imports: [
        BullModule.forRoot({ connection: { url: servers[0]!.url } }),
        BullModule.registerQueue({ name: 'reports' }),
      ],
      providers: [ReportProcessor, { provide: fencing.Fence, useValue }],
    });
    const module = await building.setLogger(silentLogger).compile();
    const runs: ((total: number) => void)[] = [];
    const processor = module.get(ReportProcessor);
    processor.totalOf = () => new Promise((resolve) => runs.push(resolve));
    await module.init();
    closeLater({
      async close() {
        // A run that waits would keep its worker open.
        for (const end of runs) end(0);
        await module.close();
      },
    });
    processor.logger = silentLogger;
    const queue: Queue = module.get(getQueueToken('reports'));
    return { worker: processor.worker, queue, runs };
  }

  async function addReport({ queue }: { queue: Queue }, report: string): Promise<Job> {
    await database.pool.query('INSERT INTO report VALUES ($1, 0)', [report]);
    return queue.add('render', { report });
  }

  /** Gives the latest run of a worker, which is its `count`th, a total, and returns the job that it completes. */
  async function complete(
    { worker, runs }: Awaited<ReturnType<typeof startWorker>>,
    count: number,
    total: number,
  ): Promise<Job> {
    await eventually(() => expect(runs).toHaveLength(count));
    const completing = once(worker, 'completed');
    runs.at(-1)!(total);
    return (await completing)[0];
  }

  async function totalOf(report: string): Promise<number> {
    const { rows } = await database.pool.query('SELECT total FROM report WHERE id = $1', [report]);
    return Number(rows[0].total);
  }

  it('rejects a worker that did not run for a while, whose end harms no newer run', async () => {
    // This is what a blocked event loop does: the lock of the job is not renewed. It comes sooner than by default.
    const frozen = await startWorker({
      lockDuration: 200,
      skipLockRenewal: true,
      stalledInterval: 200,
    });
    const job = await addReport(frozen, 'q3');
    await eventually(() => expect(frozen.runs).toHaveLength(1));
    const next = await startWorker({ stalledInterval: 200 });
    await eventually(() => expect(next.runs).toHaveLength(1));

    const ending = once(frozen.worker, 'error');
    frozen.runs[0]!(41);
    expect(String(await ending)).toMatch(/lock/i);
    expect(await totalOf('q3')).toBe(0);
    expect(await job.getState()).toBe('active');

    const done = await complete(next, 1, 42);
    expect(done).toMatchObject({ id: job.id, attemptsStarted: 2 });
    expect(await totalOf('q3')).toBe(42);
    expect(await next.queue.getJob(job.id!)).toMatchObject({ stacktrace: [], attemptsMade: 1 });
  });

  it('fails a job whose count was set back, and never completes it without having run', async () => {
    const only = await startWorker({});
    const job = await addReport(only, 'q4');
    await complete(only, 1, 7);

    const failing = once(only.worker, 'failed');
    await job.retry('completed', { resetAttemptsStarted: true });
    const [failed, error] = await failing;
    expect(failed).toMatchObject({ id: job.id, attemptsStarted: 1 });
    expect(error).toMatchObject({ code: 'STALE_TOKEN' });
    expect(await job.getState()).toBe('failed');
    expect(only.runs).toHaveLength(1);

    await job.retry('failed');
    await complete(only, 2, 8);
    expect(await totalOf('q4')).toBe(8);
  });
});
