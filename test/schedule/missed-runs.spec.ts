import 'reflect-metadata';
import { Injectable, type Type } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { describe, expect, it, jest } from '@jest/globals';
import { LockService } from '../../lib/index.ts';
import {
  CronRuns,
  FencedCron,
  type CronRun,
  type FencedCronOptions,
} from '../../lib/schedule/index.ts';
import { Gate } from '../nest/support/critical-section.ts';
import { Recorder } from '../nest/support/recorder.ts';
import { pass, settled, short, useFleet } from './support/fleet.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

interface Reports {
  readonly runs: CronRun[];
  readonly errors: unknown[];
  gate: Gate | undefined;
}

/** Reports every ten minutes. Each writes its time when it is done. */
function reportsWith(options: Partial<FencedCronOptions> = {}): Type<Reports> {
  @Injectable()
  class TenMinutes implements Reports {
    readonly runs: CronRun[] = [];
    readonly errors: unknown[] = [];
    gate: Gate | undefined;

    @FencedCron('*/10 * * * *', { name: 'reports', timeZone: 'UTC', ...options })
    async report(run: CronRun) {
      this.runs.push(run);
      await this.gate?.opened;
      const writing = run.commit((tx) =>
        tx.prepare('INSERT INTO report VALUES (?, ?)').run(short(run.scheduled), 'here'),
      );
      await writing.catch((error: Error) => {
        this.errors.push(error);
        throw error;
      });
    }
  }
  return TenMinutes;
}

const timesOf = (...services: Reports[]) =>
  services.map(({ runs }) => runs.map(({ scheduled }) => short(scheduled)));

describe('runs that were missed', () => {
  const fleet = useFleet('2026-06-01T10:59:50Z');
  const outcomes = async (module: TestingModule) => {
    const runs = await module.get(CronRuns).list('reports');
    return runs.map(({ scheduled, outcome, attempt }) =>
      [short(scheduled), outcome, attempt].join(' '),
    );
  };
  /** An application that ran at 11:00, and was away for so long. */
  const awayFor = async (minutes: number, options?: Partial<FencedCronOptions>) => {
    const Service = reportsWith(options);
    const before = await fleet().start([Service]);
    await pass(MINUTE_MS);
    await before.close();
    fleet().events.splice(0);
    jest.setSystemTime(Date.now() + minutes * MINUTE_MS);
    const logger = new Recorder();
    const module = await fleet().start([Service], undefined, logger);
    await pass(5_000);
    return { module, reports: module.get(Service), logger };
  };

  it('while nobody was there are made up for by the latest, once', async () => {
    const { reports, logger } = await awayFor(34);
    const other = (await fleet().start([reportsWith()])).get(CronRuns);
    expect(timesOf(reports)).toEqual([['11:30']]);
    expect(fleet().told).toEqual([
      'missed 11:10 11:20 11:30, runs',
      'started 11:30',
      'ended 11:30',
    ]);
    expect(logger.warnings).toMatch(
      /TenMinutes\.report: The job 'reports' has missed 3 runs, the last one of 2026-06-01T11:30:00\.000Z: no process was there, or it died\. The run of 2026-06-01T11:30:00\.000Z begins now\./,
    );
    expect((await other.list('reports')).map(({ scheduled }) => short(scheduled))).toEqual([
      '11:30',
      '11:00',
      '10:50',
    ]);
  });

  it("are all run with missed: 'all', in their order", async () => {
    const { reports } = await awayFor(34, { missed: 'all' });
    expect(timesOf(reports)).toEqual([['11:10', '11:20', '11:30']]);
    expect(fleet().told.filter((text) => text.startsWith('missed'))).toEqual([
      'missed 11:10, runs',
      'missed 11:20, runs',
      'missed 11:30, runs',
    ]);
  });

  it("are all run with missed: 'all' where the clock was ahead for a while, and is set back", async () => {
    const Service = reportsWith({ missed: 'all' });
    const module = await fleet().start([Service]);
    await pass(MINUTE_MS);
    jest.setSystemTime(Date.now() + DAY_MS);
    await pass(31 * MINUTE_MS);
    jest.setSystemTime(Date.now() - DAY_MS);
    await pass(2 * MINUTE_MS);
    const runs = module.get(Service).runs.filter(({ scheduled }) => scheduled.getUTCDate() === 1);
    expect(runs.map(({ scheduled }) => short(scheduled))).toEqual([
      '11:00',
      '11:10',
      '11:20',
      '11:30',
    ]);
  });

  it('are none of an expression that is new, before the newest run of the one that it replaces', async () => {
    const before = await fleet().start([reportsWith()]);
    await pass(MINUTE_MS);
    await before.close();
    fleet().events.splice(0);
    @Injectable()
    class Sooner {
      @FencedCron('55 10 * * *', { name: 'reports', timeZone: 'UTC' })
      async report() {}
    }
    await fleet().start([Sooner]);
    await pass(5_000);
    expect(fleet().told).toEqual([]);
  });

  /** A run by hand, on a host whose clock says so. */
  const addRunByHand = (scheduled: string) => {
    const { database } = fleet().connect();
    database.exec(
      `INSERT INTO redlock_run VALUES ('reports', '${scheduled}', '${scheduled}', '${scheduled}', 'done', 1, 1, 'x')`,
    );
    database.close();
  };

  it.each(['run', 'all'] as const)(
    'are made up for with missed: %j, although somebody has run the job by hand since',
    async (missed) => {
      addRunByHand('2026-06-01T11:33:00.500Z');
      const { reports } = await awayFor(34, { missed });
      const times = { run: ['11:30'], all: ['11:10', '11:20', '11:30'] }[missed];
      expect(timesOf(reports)).toEqual([times]);
    },
  );

  it('are none where a run by hand, on a host whose clock is ahead, comes before the next one', async () => {
    const Service = reportsWith({ missed: 'all' });
    const module = await fleet().start([Service]);
    await pass(MINUTE_MS);
    addRunByHand('2026-06-01T11:15:00.500Z');
    await pass(20 * MINUTE_MS);
    expect(timesOf(module.get(Service))).toEqual([['11:00', '11:10', '11:20']]);
  });

  it("with missed: 'all' are not looked for in the time before a job was there, one by one", async () => {
    const { reports } = await awayFor(34, { missed: 'all', catchUp: '20d' });
    expect(timesOf(reports)).toEqual([['11:10', '11:20', '11:30']]);
    const locks = fleet().events.filter(({ type }) => type === 'acquired');
    expect(locks.length).toBeLessThan(10);
  });

  it('are none for a job of which nothing earlier is known', async () => {
    addRunByHand('2026-06-01T11:15:00.500Z');
    await fleet().start([reportsWith()]);
    await pass(MINUTE_MS);
    expect(fleet().told).toEqual(['started 11:00', 'ended 11:00']);
  });

  it("are not run with missed: 'skip', and said at the next one", async () => {
    const { reports } = await awayFor(34, { missed: 'skip' });
    expect(timesOf(reports)).toEqual([[]]);
    await pass(6 * MINUTE_MS);
    expect(timesOf(reports)).toEqual([['11:40']]);
    expect(fleet().told[0]).toBe('missed 11:10 11:20 11:30, runs');
  });

  it("are not run with missed: 'skip' where the clock is set back after the start", async () => {
    const { reports } = await awayFor(34, { missed: 'skip' });
    jest.setSystemTime(Date.now() - 8 * MINUTE_MS);
    await pass(2 * MINUTE_MS);
    expect(timesOf(reports)).toEqual([[]]);
  });

  it('are skipped, and said, when they are older than catchUp', async () => {
    const { reports, module, logger } = await awayFor(34, { catchUp: '4m' });
    expect(timesOf(reports)).toEqual([[]]);
    expect(fleet().told).toEqual(['missed 11:30, skips']);
    expect(logger.warnings).toMatch(/The run of 2026-06-01T11:30:00\.000Z is older than 'catchUp'/);
    expect((await outcomes(module))[0]).toBe('11:30 skipped 0');
  });

  it('begin with catchUp, however long nobody was there', async () => {
    const { reports } = await awayFor(300, { missed: 'all', catchUp: '25m' });
    expect(timesOf(reports)).toEqual([['15:40', '15:50', '16:00']]);
  });

  it.each(['run', 'all'] as const)(
    'are none for a job that is new, with missed: %j',
    async (missed) => {
      const Service = reportsWith({ missed });
      const hosts = [await fleet().start([Service]), await fleet().start([Service])];
      await pass(5_000);
      expect(timesOf(...hosts.map((each) => each.get(Service)))).toEqual([[], []]);
      expect(fleet().told).toEqual([]);
    },
  );

  it('because the database was away are made up for when it is back, which is said once', async () => {
    const Service = reportsWith();
    const { database, fence } = fleet().connect();
    const logger = new Recorder();
    const reports = (await fleet().start([Service], { fence }, logger)).get(Service);
    database.exec('ALTER TABLE redlock_run RENAME TO away');
    await pass(2 * MINUTE_MS);
    expect(timesOf(reports)).toEqual([[]]);
    const said = logger.lines.filter((line) => line.includes('can not begin'));
    expect(said).toEqual([
      expect.stringMatching(
        /^error TenMinutes\.report: the job 'reports' can not begin[^]+The table 'redlock_run' does not exist[^]+CREATE TABLE/,
      ),
    ]);
    database.exec('ALTER TABLE away RENAME TO redlock_run');
    await pass(16_000);
    expect(timesOf(reports)).toEqual([['11:00']]);
    database.close();
  });
});

describe('a run whose process lost the lock', () => {
  const fleet = useFleet('2026-06-01T10:59:50Z');
  const start = async (options?: Partial<FencedCronOptions>) => {
    const Service = reportsWith(options);
    const modules = [
      await fleet().start([Service]),
      await fleet().start([Service]),
      await fleet().start([Service]),
    ];
    const hosts = modules.map((module) => module.get(Service));
    const [frozen] = [new Gate()];
    for (const each of hosts) each.gate = frozen;
    await pass(15_000);
    const first = hosts.find(({ runs }) => runs.length > 0)!;
    const others = hosts.filter((each) => each !== first);
    for (const each of others) each.gate = undefined;
    await modules[0]!.get(LockService).revoke('cron:reports');
    return { module: modules[0]!, first, others, frozen };
  };
  const list = async (module: TestingModule) => {
    const runs = await module.get(CronRuns).list('reports');
    return runs.map(({ scheduled, outcome, attempt }) => [short(scheduled), outcome, attempt]);
  };

  it('is run again, by one of the others, once', async () => {
    const { module, others } = await start();
    await pass(MINUTE_MS);
    expect(timesOf(...others).flat()).toEqual(['11:00']);
    expect(fleet().told).toEqual([
      'started 11:00',
      'missed 11:00, runs',
      'started 11:00',
      'ended 11:00',
    ]);
    expect((await list(module))[0]).toEqual(['11:00', 'done', 2]);
  });

  it('has its late writes and its late end refused', async () => {
    const { module, first, frozen } = await start();
    await pass(MINUTE_MS);
    const before = await module.get(CronRuns).last('reports');
    frozen.open();
    await pass(5_000);
    expect(first.errors).toEqual([expect.objectContaining({ code: 'STALE_TOKEN' })]);
    expect(await module.get(CronRuns).last('reports')).toEqual(before);
    const { database } = fleet().connect();
    expect(database.prepare('SELECT scheduled FROM report').all()).toEqual([
      { scheduled: '11:00' },
    ]);
    database.close();
  });

  it("has died with missed: 'skip', and is not run again", async () => {
    const { module, others } = await start({ missed: 'skip' });
    await pass(10 * MINUTE_MS);
    expect(timesOf(...others).flat()).toEqual(['11:10']);
    expect(await list(module)).toContainEqual(['11:00', 'died', 1]);
  });

  it('is skipped, which is said once, where nobody looks before catchUp is over', async () => {
    const Service = reportsWith({ catchUp: '4m' });
    const before = await fleet().start([Service]);
    before.get(Service).gate = new Gate();
    await pass(15_000);
    const closing = before.close();
    await pass(15_000);
    await closing;
    fleet().events.splice(0);
    jest.setSystemTime(Date.now() + 5 * MINUTE_MS);
    const modules = [await fleet().start([Service]), await fleet().start([Service])];
    await pass(15_000);
    expect(fleet().told).toEqual(['missed 11:00, skips']);
    expect((await list(modules[0]!))[0]).toEqual(['11:00', 'died', 1]);
  });

  it('is begun three times at most', async () => {
    const { module, others } = await start({ catchUp: '9m' });
    for (const each of others) each.gate = new Gate();
    for (let losses = 1; losses < 3; losses += 1) {
      await pass(MINUTE_MS);
      await module.get(LockService).revoke('cron:reports');
    }
    await pass(MINUTE_MS);
    const fresh = reportsWith();
    expect(timesOf((await fleet().start([fresh])).get(fresh))).toEqual([[]]);
    await settled();
    expect((await list(module))[0]).toEqual(['11:00', 'died', 3]);
    expect(fleet().told).toContain('missed 11:00, skips');
  });
});
