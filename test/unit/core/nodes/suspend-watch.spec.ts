import { beforeEach, describe, expect, it } from '@jest/globals';
import { SuspendWatch } from '../../../../lib/core/nodes/suspend-watch.ts';
import { ManualEnvironment } from '../../../support/manual-environment.ts';
import { scriptedSet } from '../support/scripted-node.ts';

describe('a look at the clocks', () => {
  let environment: ManualEnvironment;
  let watch: SuspendWatch;

  beforeEach(() => {
    environment = new ManualEnvironment();
    watch = new SuspendWatch(environment);
  });

  it('finds nothing while they go on together, and reads the clock since boot for that only once', () => {
    const { clock } = environment;
    const sinceBootMs = clock.sinceBootMs.bind(clock);
    let reads = 0;
    clock.sinceBootMs = () => (reads++, sinceBootMs());
    const counted = new SuspendWatch(environment);
    for (let look = 0; look < 100; look += 1) {
      environment.skip(7);
      expect(counted.look()).toBe('none');
    }
    expect([reads, counted.suspendedMs]).toEqual([1, 0]);
  });

  it.each([-20, 20])('overlooks a difference of %i ms, also when many of them add up', (ms) => {
    for (let look = 0; look < 50; look += 1) {
      environment.shiftWallClock(ms);
      expect(watch.look()).toBe('none');
    }
  });

  it.each([-60_000, -21, 21, 60_000])(
    'calls a step of the wall clock by %i ms that, once',
    (ms) => {
      environment.shiftWallClock(ms);
      expect([watch.look(), watch.look(), watch.suspendedMs]).toEqual(['wall-clock', 'none', 0]);
    },
  );

  it('finds each suspend, and how long it was to the steps of the clock since boot', () => {
    environment.skip(1_234);
    environment.suspend(20_000);
    expect(watch.look()).toBe('suspended');
    expect(Math.abs(watch.suspendedMs - 20_000)).toBeLessThanOrEqual(10);
    environment.skip(1_000);
    expect(watch.look()).toBe('none');
    environment.suspend(500);
    expect(watch.look()).toBe('suspended');
    expect(Math.abs(watch.suspendedMs - 20_500)).toBeLessThanOrEqual(20);
  });

  it('finds a suspend also when the wall clock was set at the same time', () => {
    environment.suspend(5_000);
    environment.shiftWallClock(-3_600_000);
    expect(watch.look()).toBe('suspended');
  });
});

describe('the time of a set of nodes', () => {
  it('has suspends in it as soon as somebody looked, and says so at the end of the tick', async () => {
    const steps: string[] = [];
    const { set, environment } = scriptedSet({}, { clockMoved: (step) => void steps.push(step) });
    environment.suspend(20_000);
    expect(set.nowMs).toBe(1_000);
    expect(set.checkedNowMs).toBe(set.nowMs);
    expect([set.nowMs >= 20_990, set.suspendedMs, steps]).toEqual([true, set.nowMs - 1_000, []]);
    await environment.flush();
    environment.shiftWallClock(500);
    void set.checkedNowMs;
    await environment.flush();
    expect(steps).toEqual(['suspended', 'wall-clock']);
    await set.close();
  });

  it.each(['alarms', 'budgets'] as const)(
    'ends the %s whose time passed in a suspend, and no others',
    async (name) => {
      const { set, environment } = scriptedSet();
      const ended: string[] = [];
      for (const delayMs of [5_000, 60_000])
        set[name].set({ onDeadline: () => void ended.push(`${delayMs}`) } as never, delayMs, 1_000);
      environment.suspend(20_000);
      void set.checkedNowMs;
      await environment.flush();
      expect(ended).toEqual(['5000']);
      await environment.advance(40_020);
      expect(ended).toEqual(['5000', '60000']);
      await set.close();
    },
  );
});
