import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { describe, expect, it, jest } from '@jest/globals';
import {
  FencingToken,
  fencingToken,
  LockService,
  LockSignal,
  lockSignal,
} from '../../lib/index.ts';
import { CronRuns, FencedCron, type CronRun } from '../../lib/schedule/index.ts';
import { Gate } from '../nest/support/critical-section.ts';
import { Recorder } from '../nest/support/recorder.ts';
import { eventually } from '../support/eventually.ts';
import { pass, settled, short, useFleet } from './support/fleet.ts';

const MINUTE_MS = 60_000;
const EVERY_TEN_MINUTES = '*/10 * * * *';

/** Its runs end at once, unless the test holds them up. */
@Injectable()
class Reports {
  readonly runs: CronRun[] = [];
  readonly seen: unknown[] = [];
  gate: Gate | undefined;

  @FencedCron(EVERY_TEN_MINUTES, { name: 'reports', timeZone: 'UTC' })
  async report(
    run: CronRun,
    @FencingToken() token = fencingToken(),
    @LockSignal() signal = lockSignal(),
  ) {
    this.runs.push(run);
    this.seen.push(token === run.token, signal === run.signal);
    await this.gate?.opened;
  }
}

const timesOf = (...services: Reports[]) =>
  services.flatMap(({ runs }) => runs.map(({ scheduled }) => short(scheduled))).sort();

describe('a job under @FencedCron', () => {
  const fleet = useFleet('2026-06-01T10:59:50Z');
  const host = async () => (await fleet().start([Reports])).get(Reports);
  const ledger = async (name = 'reports') => {
    const { database } = fleet().connect();
    const rows = database.prepare('SELECT * FROM redlock_run WHERE name = ?').all(name) as any[];
    database.close();
    return rows;
  };

  it('runs once in the fleet for each of its times, with the token and the signal of its lock', async () => {
    const hosts = [await host(), await host(), await host()];
    await pass(21 * MINUTE_MS);
    expect(timesOf(...hosts)).toEqual(['11:00', '11:10', '11:20']);
    expect(new Set(hosts.flatMap(({ seen }) => seen))).toEqual(new Set([true]));
  });

  it('is in the ledger under its token before its work begins, and has its end there afterwards', async () => {
    const reports = await host();
    reports.gate = new Gate();
    await pass(MINUTE_MS);
    const [run] = reports.runs;
    const { database } = fleet().connect();
    const fence = database.prepare('SELECT * FROM redlock_fence WHERE resource = ?');
    const { token, holder } = fence.all('cron:reports')[0];
    const row = {
      name: 'reports',
      scheduled: '2026-06-01T11:00:00.000Z',
      attempt: 1,
      token,
      holder,
      ended: null,
      outcome: null,
    };
    const [, begun] = await ledger();
    expect(begun).toMatchObject(row);
    expect(token).toBe(run!.token.value);
    reports.gate.open();
    await settled();
    const [, ended] = await ledger();
    expect(ended).toMatchObject({ ...row, ended: expect.any(String), outcome: 'done' });
    database.close();
  });

  it('is skipped by a host whose clock is late, however much later that looks', async () => {
    const first = await host();
    await pass(9 * MINUTE_MS);
    const late = await host();
    await pass(5_000);
    expect([timesOf(first), timesOf(late)]).toEqual([['11:00'], []]);
  });

  it('is not run again where the clock is set back', async () => {
    const reports = await host();
    await pass(11 * MINUTE_MS);
    jest.setSystemTime(Date.parse('2026-06-01T10:59:00Z'));
    await pass(15 * MINUTE_MS);
    expect(timesOf(reports)).toEqual(['11:00', '11:10']);
  });

  it('runs at its times on a host whose clock was ahead when it started', async () => {
    jest.setSystemTime(Date.parse('2026-06-02T10:59:50Z'));
    const reports = await host();
    await pass(MINUTE_MS);
    jest.setSystemTime(Date.parse('2026-06-01T10:59:50Z'));
    await pass(22 * MINUTE_MS);
    const runs = reports.runs.map(({ scheduled }) => scheduled.toISOString().slice(8, 16));
    expect(runs).toEqual(['02T11:00', '01T11:00', '01T11:10', '01T11:20']);
  });

  it('waits for the run before, on whatever host, and then begins only the latest', async () => {
    const hosts = [await host(), await host()];
    const gate = new Gate();
    for (const each of hosts) each.gate = gate;
    await pass(25 * MINUTE_MS);
    expect(timesOf(...hosts)).toEqual(['11:00']);
    gate.open();
    await pass(MINUTE_MS);
    expect(timesOf(...hosts)).toEqual(['11:00', '11:20']);
    expect(fleet().told).toEqual([
      'started 11:00',
      'ended 11:00',
      'missed 11:10, runs',
      'started 11:20',
      'ended 11:20',
    ]);
  });

  it('has the end of a run and the effect of its last transaction committed together', async () => {
    @Injectable()
    class Writing {
      readonly outcomes: unknown[] = [];

      @FencedCron(EVERY_TEN_MINUTES, { name: 'writing', timeZone: 'UTC' })
      async write(run: CronRun) {
        const insert = (tx: any) => {
          tx.prepare('INSERT INTO report VALUES (?, ?)').run(short(run.scheduled), 'here');
          if (this.outcomes.length === 0) throw new Error('the work failed');
        };
        await run.commit(insert).catch(() => undefined);
        const [, ...rows] = await ledger('writing');
        this.outcomes.push(rows.at(-1).outcome);
      }
    }
    const module = await fleet().start([Writing]);
    await pass(11 * MINUTE_MS);
    // The runs go on after that.
    expect(module.get(Writing).outcomes).toEqual([null, 'done']);
    const { database } = fleet().connect();
    expect(database.prepare('SELECT * FROM report').all()).toEqual([
      { scheduled: '11:10', host: 'here' },
    ]);
    database.close();
  });

  it('is done where the end of its run was committed, and the answer to that was lost', async () => {
    const { database, fence } = fleet().connect();
    const logger = new Recorder();
    const reports = (await fleet().start([Reports], { fence }, logger)).get(Reports);
    reports.gate = new Gate();
    await pass(MINUTE_MS);
    const exec = database.exec.bind(database);
    let isLost = false;
    database.exec = (sql) => {
      exec(sql);
      if (isLost || sql !== 'COMMIT') return;
      isLost = true;
      throw new Error('the connection was lost');
    };
    reports.gate.open();
    // It tries again a second later, which no test moves.
    await eventually(async () => expect(fleet().told).toContain('ended 11:00'));
    await settled();
    expect(isLost).toBe(true);
    expect((await ledger())[1]).toMatchObject({ attempt: 1, outcome: 'done' });
    expect(logger.lines.filter((line) => line.startsWith('error'))).toEqual([]);
  });

  it('says so when it fails, and is not begun again for that', async () => {
    @Injectable()
    class Failing {
      @FencedCron(EVERY_TEN_MINUTES, { name: 'failing', timeZone: 'UTC' })
      async fail() {
        throw new Error('no paper');
      }
    }
    const logger = new Recorder();
    const module = await fleet().start([Failing], undefined, logger);
    await pass(5 * MINUTE_MS);
    const runs = await module.get(CronRuns).list('failing');
    expect(runs.map(({ outcome, attempt }) => [outcome, attempt])).toEqual([
      ['failed', 1],
      ['skipped', 0],
    ]);
    const said = logger.lines.filter((line) => line.includes('no paper'));
    expect(said).toEqual([expect.stringMatching(/^error Failing\.fail: the job 'failing' failed/)]);
    expect(fleet().events.filter(({ type }) => type === 'run-ended')).toEqual([
      expect.objectContaining({ name: 'failing', where: 'Failing.fail', error: expect.any(Error) }),
    ]);
  });

  it('called by hand waits for a host that has its lock for a moment, to look whether a run is due', async () => {
    const module = await fleet().start([Reports]);
    const looking = await module.get(LockService).acquire('cron:reports');
    const byHand = module.get(Reports).report(undefined as never);
    await settled();
    await looking.release();
    await byHand;
    expect(module.get(Reports).runs).toHaveLength(1);
  });

  it('called by hand runs now, unless it is running', async () => {
    const hosts = [await host(), await host()];
    hosts[0]!.gate = new Gate();
    const byHand = hosts[0]!.report(undefined as never);
    await settled();
    const meanwhile = hosts[1]!.report(undefined as never);
    await pass(MINUTE_MS / 4);
    await meanwhile;
    expect(hosts.map(({ runs }) => runs.length)).toEqual([1, 0]);
    hosts[0]!.gate.open();
    await byHand;
    const [, run] = await ledger();
    expect(run).toMatchObject({ scheduled: '2026-06-01T10:59:50.001Z', outcome: 'done' });
  });

  it('called by hand more than once in a millisecond, in whichever process, runs each time', async () => {
    const [one, other] = [await host(), await host()];
    for (const reports of [one, one, other]) await reports.report(undefined as never);
    const times = [one, other].map(({ runs }) =>
      runs.map(({ scheduled }) => scheduled.getTime() % 1_000),
    );
    expect(times).toEqual([[1, 2], [3]]);
  });

  it('is found by its name: the last run, and all of them, the latest first', async () => {
    const module = await fleet().start([Reports]);
    await pass(11 * MINUTE_MS);
    const runs = module.get(CronRuns);
    const listed = await runs.list('reports');
    expect(listed.map(({ scheduled }) => short(scheduled))).toEqual(['11:10', '11:00', '10:50']);
    expect(await runs.last('reports')).toEqual(listed[0]);
    expect(listed[0]).toMatchObject({ name: 'reports', outcome: 'done', attempt: 1 });
    expect(await runs.last('other')).toBeUndefined();
  });
});

describe('without a fence, a job under @FencedCron', () => {
  const fleet = useFleet('2026-06-01T10:59:58Z');
  const host = async () => (await fleet().start([Reports], {})).get(Reports);

  it('runs once in the fleet: its lock is kept past the timers of hosts whose clocks are late', async () => {
    const first = await host();
    await pass(3_000);
    const late = await host();
    await pass(12 * MINUTE_MS);
    expect(timesOf(first)).toContain('11:00');
    expect(timesOf(first, late)).toEqual(['11:00', '11:10']);
  });

  it('is not begun by a host that looks when the lock may be free again', async () => {
    const first = await host();
    await pass(12_000);
    const late = await host();
    await pass(MINUTE_MS);
    expect([timesOf(first), timesOf(late)]).toEqual([['11:00'], []]);
  });

  it('has no run.commit, and no runs in a ledger', async () => {
    const module = await fleet().start([Reports], {});
    const reports = module.get(Reports);
    await pass(3_000);
    await expect(reports.runs[0]!.commit(() => undefined)).rejects.toThrow(/needs a fence/);
    await expect(module.get(CronRuns).last('reports')).rejects.toThrow(/needs a fence/);
  });
});
