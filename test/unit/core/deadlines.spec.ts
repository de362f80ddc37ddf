import { beforeEach, describe, expect, it } from '@jest/globals';
import { Deadline, Deadlines } from '../../../lib/core/deadlines.ts';
import { ManualEnvironment } from '../../support/manual-environment.ts';

let environment: ManualEnvironment;
/** Deadlines that were called, and when: `name@ms`. */
let called: string[];
let deadlines: Deadlines;
const now = () => environment.clock.monotonicMs();

beforeEach(() => {
  environment = new ManualEnvironment();
  called = [];
  deadlines = new Deadlines(environment, now);
});

class Named extends Deadline {
  constructor(readonly name: string) {
    super();
  }

  onDeadline(): void {
    called.push(`${this.name}@${now()}`);
  }
}

describe('deadlines that are set again', () => {
  it('in the order in which they began cost no walk over all that began later', async () => {
    let reads = 0;
    const all = Array.from({ length: 2_000 }, (_, index) => {
      const deadline = new Named(`${index}`);
      let dueMs = 0;
      const counted = { get: () => ((reads += 1), dueMs), set: (ms: number) => (dueMs = ms) };
      return Object.defineProperty(deadline, 'dueMs', counted);
    });
    for (const [index, deadline] of all.entries()) deadlines.set(deadline, 10_000, index);
    reads = 0;
    for (const deadline of all) deadlines.cancel(deadline);
    for (const [index, deadline] of all.entries()) deadlines.set(deadline, 10_000, index);
    for (const [index, deadline] of all.entries()) {
      deadlines.cancel(deadline);
      deadlines.set(deadline, 10_000, index);
    }
    // Reads as many as the heap has levels, a few times.
    expect(reads).toBeLessThan(200 * all.length);
    await environment.advance(20_000);
    expect(called).toHaveLength(all.length);
  });
});

describe('deadlines of one delay', () => {
  it('are called at once when the process was stopped while their timer was set', async () => {
    // The stop is between the look at the clock and the timer, which counts from then on.
    const { timers } = environment;
    const set = timers.set.bind(timers);
    const stops = [500, 500, 0];
    const slow: typeof set = (...settings) => {
      environment.skip(stops.shift() ?? 0);
      return set(...settings);
    };
    Object.assign(timers, { set: slow });
    deadlines.set(new Named('a'), 300, now());
    await environment.advance(0);
    expect([called, environment.pendingTimers]).toEqual([['a@1000'], 0]);
  });
});

describe('a timer that ends waits for answers', () => {
  it('lets what has arrived be read first, also where it is not late: a pause may end in that moment', async () => {
    const [answered, silent] = [new Named('answered'), new Named('silent')];
    const afterPoll = environment.afterPoll.bind(environment);
    const polled = (callback: () => void) =>
      afterPoll(() => {
        deadlines.cancel(answered);
        callback();
      });
    Object.assign(environment, { afterPoll: polled });
    for (const deadline of [answered, silent]) deadlines.set(deadline, 100, now());
    await environment.advance(100);
    expect(called).toEqual(['silent@100']);
  });

  it('looks exactly once more: a loop that is always late still ends its waits', async () => {
    const afterPoll = environment.afterPoll.bind(environment);
    let polls = 0;
    const polled = (callback: () => void) =>
      afterPoll(() => {
        polls += 1;
        environment.skip(500);
        callback();
      });
    Object.assign(environment, { afterPoll: polled });
    for (const fromMs of [0, 30]) deadlines.set(new Named(`from ${fromMs}`), 100, fromMs);
    environment.skip(300);
    await environment.advance(0);
    expect([called.length, polls]).toEqual([2, 1]);
  });
});
