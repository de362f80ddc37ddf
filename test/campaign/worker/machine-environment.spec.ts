import { describe, expect, it } from '@jest/globals';
import { historyNow } from '../../history/lock-history.ts';
import { MachineEnvironment } from './machine-environment.ts';

describe('the clock of a worker', () => {
  it('stands still as a whole while a lock is asked: that is no suspend', () => {
    const environment = new MachineEnvironment();
    const { clock } = environment;
    const bootAheadMs = () => clock.sinceBootMs() - clock.monotonicMs();
    const asleepMs = bootAheadMs();
    const at = historyNow() - 60_000;
    const seen = environment.still(at, () => [clock.monotonicMs(), bootAheadMs()] as const);
    expect(seen[0]).toBe(at);
    expect(Math.abs(seen[1] - asleepMs)).toBeLessThan(30_000);
    expect(Math.abs(bootAheadMs() - asleepMs)).toBeLessThan(30_000);
  });
});
