import 'reflect-metadata';
import { Injectable, Logger } from '@nestjs/common';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService, RedlockClosedError } from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, compileModule, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
import { Recorder } from './support/recorder.ts';

@Injectable()
class Reports {
  signal?: AbortSignal;

  constructor(private readonly locks: LockService) {}

  @Fenced('report')
  async run(gate: Gate): Promise<string> {
    this.signal = this.locks.current()!.signal;
    await gate.opened;
    return 'finished';
  }
}

/** Ticks only when the test says so, and waits for its lock. */
@Injectable()
class Nightly {
  ran = 0;

  @Cron('0 0 1 1 *', { name: 'nightly' })
  @Fenced('nightly', { onBusy: 'skip', wait: '1h' })
  async tick(): Promise<void> {
    this.ran += 1;
  }
}

describe('shutdown', () => {
  afterEach(closeAll);
  afterEach(() => Logger.overrideLogger(false));

  it('lets a held section finish, refuses new locks meanwhile, and ends after it', async () => {
    const module = await startModule({ providers: [Reports] }, { shutdownTimeout: '1h' });
    const reports = module.get(Reports);
    const gate = new Gate();
    const running = reports.run(gate);
    await untilHeld(reports);
    let closed = false;
    const closing = module.close().then(() => {
      closed = true;
    });
    await untilRefused(module.get(LockService));
    expect(closed).toBe(false);
    expect(reports.signal!.aborted).toBe(false);
    gate.open();
    await expect(running).resolves.toBe('finished');
    await closing;
  });

  it('releases and tells a section that is still held after shutdownTimeout', async () => {
    const nodes = createMemoryNodes(3);
    const module = await startModule({ providers: [Reports] }, { nodes, shutdownTimeout: 1 });
    const reports = module.get(Reports);
    const gate = new Gate();
    const running = reports.run(gate);
    await untilHeld(reports);
    await module.close();
    expect(reports.signal!.aborted).toBe(true);
    expect(reports.signal!.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'closed' });
    gate.open();
    await expect(running).rejects.toMatchObject({ code: 'LOCK_LOST', result: 'finished' });
    const servers = nodes.map((node) => node.server);
    const next = await startModule({}, { nodes: createMemoryNodes(servers) });
    const lock = await next.get(LockService).tryAcquire('report');
    expect(lock).not.toBeNull();
    await lock?.release();
  });

  it('skips a cron job that ticks meanwhile, or waits, and logs no error', async () => {
    const recorder = new Recorder();
    const nodes = createMemoryNodes(3);
    const providers = [Reports, Nightly];
    const imports = [ScheduleModule.forRoot()];
    const module = await startModule({ imports, providers }, { nodes, shutdownTimeout: '1h' });
    Logger.overrideLogger(recorder);
    const reports = module.get(Reports);
    const locks = module.get(LockService);
    const job = module.get(SchedulerRegistry).getCronJob('nightly');
    const gate = new Gate();
    const running = reports.run(gate);
    await untilHeld(reports);
    await using _other = await occupy(nodes, 'nightly');
    const waiting = job.fireOnTick();
    await eventually(() => expect(locks.held().waiting).toHaveLength(1));
    const closing = module.close();
    await untilRefused(locks);
    await job.fireOnTick();
    await waiting;
    gate.open();
    await Promise.all([running, closing]);
    expect(module.get(Nightly).ran).toBe(0);
    expect(recorder.lines.filter((line) => line.startsWith('error'))).toEqual([]);
  });

  it('closes an application that never used a lock, nor was initialised', async () => {
    const module = await compileModule({ providers: [Reports] });
    await module.close();
    await expect(module.get(LockService).acquire('a')).rejects.toThrow(RedlockClosedError);
  });

  const untilRefused = (locks: LockService) =>
    eventually(() =>
      expect(locks.withLock('other', () => undefined)).rejects.toThrow(RedlockClosedError),
    );
  const untilHeld = (reports: Reports) => eventually(() => expect(reports.signal).toBeDefined());
});
