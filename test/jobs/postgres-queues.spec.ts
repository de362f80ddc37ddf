import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger, makeWorkerUtils, run, runOnce, type JobHelpers } from 'graphile-worker';
import type { PoolClient } from 'pg';
import PgBoss from 'pg-boss';
import { Fence, postgresFence } from '../../lib/fencing/index.ts';
import { FencedJob, FencingToken, fencingToken, jobToken } from '../../lib/jobs/index.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';

/** Renders reports. Its runs end one by one, when they are given a total. */
@Injectable()
class Reports {
  readonly runs: ((total: number) => void)[] = [];

  constructor(private readonly fence: Fence<PoolClient>) {}

  @FencedJob()
  async render(_job: object, @FencingToken() token = fencingToken()) {
    const total = await new Promise<number>((resolve) => this.runs.push(resolve));
    await this.fence.transaction(token, (tx) => tx.query('UPDATE report SET total = $1', [total]));
  }
}

describe('a queue in PostgreSQL', () => {
  const database = usePostgres(async (pool) => {
    await pool.query(postgresFence(pool).ddl());
    await pool.query('CREATE TABLE report (total bigint)');
    await pool.query('INSERT INTO report VALUES (0)');
  });
  let reports: Reports;
  beforeEach(async () => {
    const fence = { provide: Fence, useValue: postgresFence(database.pool) };
    const building = Test.createTestingModule({ providers: [Reports, fence] });
    const module = closeLater(await building.setLogger(silentLogger).compile());
    reports = module.get(Reports);
  });
  afterEach(closeAll);

  async function expectTotal(total: number): Promise<void> {
    expect((await database.pool.query('SELECT total FROM report')).rows[0].total).toBe(`${total}`);
  }

  it('gives pg-boss jobs whose older run writes nothing', async () => {
    const boss = new PgBoss({ connectionString: database.url, supervise: false, schedule: false });
    boss.on('error', () => undefined);
    closeLater({ close: () => boss.stop({ graceful: false }) });
    await boss.start();
    await boss.createQueue('reports');
    const id = await boss.send('reports', {}, { retryLimit: 3 });
    const fetch = async () => (await boss.fetch('reports', { includeMetadata: true }))[0]!;

    const frozen = reports.render(await fetch());
    await eventually(() => expect(reports.runs).toHaveLength(1));
    // This is what an expired job comes to.
    await boss.fail('reports', id!);
    const next = reports.render(await fetch());
    await eventually(() => expect(reports.runs).toHaveLength(2));

    reports.runs[0]!(41);
    await expect(frozen).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    reports.runs[1]!(42);
    await next;
    await expectTotal(42);
  });

  describe('of graphile-worker', () => {
    const logger = new Logger(() => () => undefined);
    beforeAll(async () => {
      const utils = await makeWorkerUtils({ connectionString: database.url, logger });
      await utils.migrate();
      await utils.release();
    });

    const jobs = async () => {
      const text = 'SELECT attempts, locked_by, last_error FROM graphile_worker.jobs';
      return (await database.pool.query(text)).rows;
    };

    it('gives jobs whose older run writes nothing, and harms no newer run', async () => {
      const ended: string[] = [];
      const render = async (_payload: unknown, { job }: JobHelpers) =>
        reports.render(job).catch((error: { code: string }) => {
          ended.push(error.code);
          throw error;
        });
      const options = {
        connectionString: database.url,
        logger,
        taskList: { render },
        noHandleSignals: true,
      };
      await database.pool.query("SELECT graphile_worker.add_job('render')");
      const frozen = await run({ ...options, concurrency: 1, pollInterval: 20 });
      await eventually(() => expect(reports.runs).toHaveLength(1));
      const [{ locked_by: worker }] = await jobs();
      // The server does so by itself four hours after a worker has taken a job.
      await database.pool.query('SELECT graphile_worker.force_unlock_workers($1)', [[worker]]);
      const next = runOnce(options);
      await eventually(() => expect(reports.runs).toHaveLength(2));

      reports.runs[0]!(41);
      await eventually(() => expect(ended).toEqual(['STALE_TOKEN']));
      await frozen.stop();
      const locked = { attempts: 2, locked_by: expect.not.stringContaining(worker) };
      expect(await jobs()).toEqual([{ ...locked, last_error: null }]);
      reports.runs[1]!(43);
      await next;
      expect(await jobs()).toEqual([]);
      await expectTotal(43);
    });

    it('runs a job that is added again by its key, although its count begins again', async () => {
      const seen: number[] = [];
      const render = async (_payload: unknown, { job }: JobHelpers) => {
        seen.push(job.attempts);
        if (seen.length === 1) {
          await postgresFence(database.pool).claim(jobToken(job));
          throw new Error('failed once');
        }
        const running = reports.render(job);
        await eventually(() => expect(reports.runs).toHaveLength(1));
        reports.runs[0]!(44);
        await running;
      };
      const options = { connectionString: database.url, logger, taskList: { render } };
      for (let count = 1; count <= 2; count += 1) {
        await database.pool.query("SELECT graphile_worker.add_job('render', job_key => 'q3')");
        await runOnce(options);
      }
      expect(seen).toEqual([1, 1]);
      await expectTotal(44);
    });
  });
});
