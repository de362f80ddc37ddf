import { afterEach, describe, expect, it } from '@jest/globals';
import { usePostgres } from '../../test/support/databases/use-databases.ts';
import { eventually } from '../../test/support/eventually.ts';

/** It is not installed where this is only compiled, but an older one is. */
const PG_BOSS: string = 'pg-boss';

/** Ends a run. */
interface Ends {
  resolve(): void;
  reject(error: Error): void;
}

describe('pg-boss from 12.35 on', () => {
  const database = usePostgres(async () => undefined);
  const open: { stop(options: object): Promise<unknown> }[] = [];
  afterEach(() => Promise.all(open.map((boss) => boss.stop({ graceful: false }))));

  /** A worker whose runs end when they are told to. */
  async function startWorker() {
    const { PgBoss } = await import(PG_BOSS);
    const boss = new PgBoss({ connectionString: database.url, supervise: false, schedule: false });
    open.push(boss);
    boss.on('error', () => undefined);
    await boss.start();
    await boss.createQueue('jobs');
    const runs: Ends[] = [];
    const begin = () =>
      boss.work('jobs', { pollingIntervalSeconds: 0.5 }, () => {
        const ends = {} as Ends;
        runs.push(ends);
        return new Promise<void>((resolve, reject) => Object.assign(ends, { resolve, reject }));
      });
    return { boss, runs, begin };
  }

  it('lets an old run that throws change nothing for the newer one', async () => {
    const [frozen, next] = [await startWorker(), await startWorker()];
    const id = await frozen.boss.send(
      'jobs',
      {},
      { retryLimit: 5, retryDelay: 0, expireInSeconds: 60 },
    );
    await frozen.begin();
    await eventually(() => expect(frozen.runs).toHaveLength(1));
    // This is what a job that has expired looks like to the monitor.
    await database.pool.query("UPDATE pgboss.job SET started_on = now() - interval '1 hour'");
    await next.boss.supervise('jobs');
    await next.begin();
    await eventually(() => expect(next.runs).toHaveLength(1));

    frozen.runs[0]!.reject(new Error('stale'));
    // The worker takes another job when it has reported the end of this one; the other worker is at work.
    await next.boss.send('jobs', {});
    await eventually(() => expect(frozen.runs).toHaveLength(2));
    const first = async () =>
      (await database.pool.query('SELECT state, retry_count FROM pgboss.job WHERE id = $1', [id]))
        .rows[0];
    expect(await first()).toEqual({ state: 'active', retry_count: 1 });
    next.runs[0]!.resolve();
    await eventually(async () =>
      expect(await first()).toEqual({ state: 'completed', retry_count: 1 }),
    );
    frozen.runs[1]!.resolve();
  });
});
