import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService, RedlockClosedError } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, compileModule, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';

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

describe('shutdown', () => {
  afterEach(closeAll);

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
    const other = () => module.get(LockService).withLock('other', () => undefined);
    await eventually(() => expect(other()).rejects.toThrow(RedlockClosedError));
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

  it('closes an application that never used a lock, nor was initialised', async () => {
    const module = await compileModule({ providers: [Reports] });
    await module.close();
    await expect(module.get(LockService).acquire('a')).rejects.toThrow(RedlockClosedError);
  });

  const untilHeld = (reports: Reports) => eventually(() => expect(reports.signal).toBeDefined());
});
