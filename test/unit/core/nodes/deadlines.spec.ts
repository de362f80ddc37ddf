import { describe, expect, it } from '@jest/globals';
import { Deadline, Deadlines } from '../../../../lib/core/nodes/deadlines.ts';
import { ManualEnvironment } from '../../../support/manual-environment.ts';

class Recorded extends Deadline {
  readonly firedAtMs: number[] = [];
  readonly #onFire: () => void;

  constructor(
    readonly environment: ManualEnvironment,
    onFire: () => void = () => undefined,
  ) {
    super();
    this.#onFire = onFire;
  }

  onDeadline(): void {
    this.firedAtMs.push(this.environment.clock.monotonicMs());
    this.#onFire();
  }
}

describe('Deadlines of one delay', () => {
  it('are each called in time, also when the one before sets itself anew', async () => {
    const environment = new ManualEnvironment();
    const deadlines = new Deadlines(environment, false);
    const now = () => environment.clock.monotonicMs();
    const again: Recorded = new Recorded(environment, () => deadlines.set(again, 100, now()));
    const next = new Recorded(environment);
    deadlines.set(again, 100, now());
    await environment.advance(10);
    deadlines.set(next, 100, now());
    await environment.advance(150);
    expect(again.firedAtMs).toEqual([100]);
    expect(next.firedAtMs).toEqual([110]);
    deadlines.close();
  });

  it('are called at once after one whose callback blocked the process', () => {
    let nowMs = 0;
    const timers: { readonly atMs: number; readonly callback: () => void }[] = [];
    const environment = new ManualEnvironment();
    const blocked = {
      random: environment.random,
      clock: { wallMicros: () => 0, monotonicMs: () => nowMs },
      timers: {
        set: (callback: () => void, delayMs: number) =>
          timers.push({ atMs: nowMs + delayMs, callback }),
        clear: () => undefined,
      },
    };
    const deadlines = new Deadlines(blocked, false);
    deadlines.set(new Recorded(environment, () => (nowMs = 500)), 100, 0);
    nowMs = 60;
    deadlines.set(new Recorded(environment), 100, nowMs);
    nowMs = 100;
    timers.shift()?.callback();
    expect(timers).toEqual([expect.objectContaining({ atMs: 501 })]);
  });

  it('leave no timer behind when closed by one of them', async () => {
    const environment = new ManualEnvironment();
    const deadlines = new Deadlines(environment, false);
    const closing = new Recorded(environment, () => deadlines.close());
    deadlines.set(closing, 100, 0);
    await environment.advance(10);
    const next = new Recorded(environment);
    deadlines.set(next, 100, 10);
    await environment.advance(200);
    expect(closing.firedAtMs).toEqual([100]);
    expect(next.firedAtMs).toEqual([]);
    expect(environment.pendingTimers).toBe(0);
  });
});
