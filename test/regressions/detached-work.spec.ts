import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../lib/core/lock.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { settledHeapBytes } from './support.ts';

const JOBS = 20_000;

describe('a job that starts the next one from inside its section', () => {
  it('leaves nothing of itself behind: no lock on the chain of its successors, and no memory', async () => {
    // Two services: what one of them has finished must not stay on the chain of the other.
    const services = [0, 1].map(() => new Redlock(createMemoryNodes(3), { restartGuard: false }));
    for (const service of services) service.open();
    const locks: WeakRef<Lock>[] = [];
    let halfwayBytes = 0;
    await new Promise<void>((resolve, reject) => {
      const run = (number: number) => {
        const work = async (lock: Lock) => {
          if (number % 100 === 0) locks.push(new WeakRef(lock));
          if (number === JOBS / 2) halfwayBytes = await settledHeapBytes();
          setImmediate(number < JOBS ? () => run(number + 1) : resolve);
        };
        services[number % 2]!.withLock('job', work).catch(reject);
      };
      run(1);
    });
    const endBytes = await settledHeapBytes();
    const reachable = locks.filter((lock) => lock.deref() !== undefined).length;
    await Promise.all(services.map((service) => service.close()));
    expect(locks).toHaveLength(JOBS / 100);
    expect(reachable).toBeLessThanOrEqual(2);
    expect((endBytes - halfwayBytes) / (JOBS / 2)).toBeLessThan(200);
    // Collecting all garbage takes long in a process that has run many specs.
  }, 120_000);
});
