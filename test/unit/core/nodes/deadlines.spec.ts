import { beforeEach, describe, expect, it } from '@jest/globals';
import { Deadline, Deadlines } from '../../../../lib/core/nodes/deadlines.ts';
import { ManualEnvironment, seededRandom } from '../../../support/manual-environment.ts';

let environment: ManualEnvironment;
/** Deadlines that were called, and when: `name@ms`. */
let called: string[];
let deadlines: Deadlines;
const now = () => environment.clock.monotonicMs();
const names = () => called.map((each) => each.replace(/@.*/, ''));

beforeEach(() => {
  environment = new ManualEnvironment();
  called = [];
  deadlines = new Deadlines(environment, now);
});

class Named extends Deadline {
  readonly onDeadline: () => void;

  constructor(name: string, then: () => void = () => undefined) {
    super();
    this.onDeadline = () => {
      called.push(`${name}@${now()}`);
      then();
    };
  }
}

/** Calls `arrive` when the sockets are read, before those are called that wait for that; returns how often it was. */
function whenPolled(arrive: () => void): () => number {
  const afterPoll = environment.afterPoll.bind(environment);
  let polls = 0;
  const polled = (callback: () => void) =>
    afterPoll(() => {
      polls += 1;
      arrive();
      callback();
    });
  Object.assign(environment, { afterPoll: polled });
  return () => polls;
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
    expect(names()).toEqual(all.map((_, index) => `${index}`));
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

  it('are called in the order in which they end, also those that began in the past', async () => {
    const random = seededRandom(5);
    const begins = Array.from({ length: 200 }, () => Math.floor(random.fraction() * 100));
    const cancelled = new Set<number>();
    const all = begins.map((_, index) => new Named(`${index}`));
    for (const [index, fromMs] of begins.entries()) {
      deadlines.set(all[index]!, 100, fromMs);
      const other = Math.floor(random.fraction() * index);
      if (random.fraction() < 0.3 && cancelled.add(other)) deadlines.cancel(all[other]!);
    }
    expect(environment.pendingTimers).toBe(1);
    await environment.advance(300);
    const left = begins.flatMap((fromMs, index) => (cancelled.has(index) ? [] : { fromMs, index }));
    const inOrder = left.sort((a, b) => a.fromMs - b.fromMs || a.index - b.index);
    expect(called).toEqual(inOrder.map(({ fromMs, index }) => `${index}@${fromMs + 100}`));
    expect(environment.pendingTimers).toBe(0);
  });

  it('are each called in time, also when the one before sets itself again, and at their new time', async () => {
    const again: Named = new Named('again', () => deadlines.set(again, 100, now()));
    const moved = new Named('moved');
    deadlines.set(again, 100, 0);
    for (const delayMs of [100, 40, 60]) deadlines.set(moved, delayMs, 0);
    await environment.advance(10);
    deadlines.set(new Named('next'), 100, now());
    await environment.advance(150);
    expect(called).toEqual(['moved@60', 'again@100', 'next@110']);
    deadlines.close();
  });
});

describe('a line that fires late', () => {
  beforeEach(() => {
    deadlines = new Deadlines(environment, now);
  });

  it('looks exactly once more: a loop that is always late still ends its waits', async () => {
    const polls = whenPolled(() => environment.skip(500));
    for (const fromMs of [0, 30]) deadlines.set(new Named(`from ${fromMs}`), 100, fromMs);
    environment.skip(300);
    await environment.advance(0);
    expect([names(), polls()]).toEqual([['from 0', 'from 30'], 1]);
  });
});
