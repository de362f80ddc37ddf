import 'reflect-metadata';
import { Injectable, NotFoundException } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockBusyError, LockService } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, startModule } from './support/applications.ts';

@Injectable()
class Reports {
  runs = 0;

  constructor(private readonly locks: LockService) {}

  @Fenced('report', { wait: 0 })
  async run(work: () => Promise<string> = async () => 'done'): Promise<string> {
    this.runs += 1;
    return work();
  }

  @Fenced('report', { onBusy: 'skip' })
  async runOrSkip(): Promise<string | undefined> {
    this.runs += 1;
    return 'done';
  }

  @Fenced('outer', { onBusy: 'skip' })
  async outerThatFailsInside(inside = () => this.run()): Promise<string | undefined> {
    return inside();
  }

  @Fenced('report', { extend: false, onLost: 'ignore', wait: 0 })
  async runIgnoringLoss(work: () => Promise<string>): Promise<string> {
    return work();
  }

  @Fenced('report', { extend: false, ttl: 100 })
  async runUnextended(work: () => Promise<string>): Promise<string> {
    return work();
  }

  currentSignal(): AbortSignal {
    return this.locks.current()!.signal;
  }
}

describe('what a method under @Fenced resolves to', () => {
  afterEach(closeAll);

  async function start() {
    const nodes = createMemoryNodes(3);
    const module = await startModule({ providers: [Reports] }, { nodes, ttl: 500, wait: '1h' });
    return { nodes, reports: module.get(Reports), locks: module.get(LockService) };
  }

  it("is the method's result", async () => {
    const { reports } = await start();
    await expect(reports.run()).resolves.toBe('done');
    await expect(reports.run(async () => undefined as never)).resolves.toBeUndefined();
  });

  it("is the method's own error, the same object, and the lock is free afterwards", async () => {
    const { reports, locks } = await start();
    const own = new NotFoundException('no such report');
    await expect(
      reports.run(async () => {
        throw own;
      }),
    ).rejects.toBe(own);
    const lock = await locks.tryAcquire('report');
    expect(lock).not.toBeNull();
    await lock?.release();
  });

  it('is LockBusyError when another holder has it', async () => {
    const { reports, locks } = await start();
    await locks.acquire('report');
    await expect(reports.run()).rejects.toThrow(LockBusyError);
    expect(reports.runs).toBe(0);
  });

  it("is undefined with onBusy: 'skip', without waiting", async () => {
    const { reports, locks } = await start();
    await locks.acquire('report');
    await expect(reports.runOrSkip()).resolves.toBeUndefined();
    expect(reports.runs).toBe(0);
  });

  it("is the result with onBusy: 'skip' when the lock is free", async () => {
    const { reports } = await start();
    await expect(reports.runOrSkip()).resolves.toBe('done');
  });

  it('does not skip a half-done method because a lock inside of it is busy', async () => {
    const { reports, locks } = await start();
    await locks.acquire('report');
    await expect(reports.outerThatFailsInside()).rejects.toThrow(LockBusyError);
    const own = new LockBusyError(['outer'], 0, undefined);
    await expect(reports.outerThatFailsInside(() => Promise.reject(own))).rejects.toBe(own);
  });

  it('is QuorumUnavailableError in an outage, also with skip: no one else is known to do the work', async () => {
    const { nodes, reports } = await start();
    for (const node of nodes.slice(0, 2)) node.server.kill();
    await expect(reports.runOrSkip()).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    expect(reports.runs).toBe(0);
  });

  it('is LockLostError carrying the result when the lock was lost meanwhile', async () => {
    const { nodes, reports } = await start();
    const work = reports.run(() => loseLock(nodes, reports.currentSignal()));
    await expect(work).rejects.toMatchObject({
      code: 'LOCK_LOST',
      result: 'finished all the same',
    });
  });

  it("is the result after a loss with onLost: 'ignore'", async () => {
    const { nodes, reports } = await start();
    const work = reports.runIgnoringLoss(() => loseLock(nodes, reports.currentSignal()));
    await expect(work).resolves.toBe('finished all the same');
  });

  it("is the method's own error after a loss, too", async () => {
    const { nodes, reports } = await start();
    const own = new Error('own');
    const work = reports.run(async () => {
      await loseLock(nodes, reports.currentSignal());
      throw own;
    });
    await expect(work).rejects.toBe(own);
  });

  /** Makes a majority forget the lock or be gone, and waits until the holder is notified. */
  async function loseLock(
    nodes: ReturnType<typeof createMemoryNodes>,
    signal: AbortSignal,
  ): Promise<string> {
    for (const node of nodes) node.server.kill();
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return 'finished all the same';
  }
});
