import { beforeEach, describe, expect, it } from '@jest/globals';
import { Deadline, Deadlines } from '../../../../lib/core/nodes/deadlines.ts';
import { ManualEnvironment, seededRandom } from '../../../support/manual-environment.ts';

let environment: ManualEnvironment;
/** What was called, and when: `name@ms`. */
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

/** What happens when the sockets are read, before those are called that wait for that; returns how often it was. */
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

describe('deadlines', () => {
  it('are called in the order in which they end, with one timer, those of one moment as they were set', async () => {
    const random = seededRandom(5);
    const dueMs = Array.from({ length: 500 }, () => 100 + Math.floor(random.fraction() * 100));
    const cancelled = new Set<number>();
    const all = dueMs.map((_, index) => new Named(`${index}`));
    for (const [index, eachMs] of dueMs.entries()) {
      deadlines.set(all[index]!, eachMs);
      const other = Math.floor(random.fraction() * index);
      if (random.fraction() < 0.3 && cancelled.add(other)) deadlines.cancel(all[other]!);
      expect(environment.pendingTimers).toBe(1);
    }
    await environment.advance(300);
    const left = dueMs.flatMap((ms, index) => (cancelled.has(index) ? [] : { ms, index }));
    const inOrder = left.sort((a, b) => a.ms - b.ms || a.index - b.index);
    expect(called).toEqual(inOrder.map(({ ms, index }) => `${index}@${ms}`));
    expect(environment.pendingTimers).toBe(0);
  });

  it('cost a few comparisons each, however many wait and are cancelled', () => {
    let reads = 0;
    const all = Array.from({ length: 2_000 }, (_, index) => {
      const deadline = new Named(`${index}`);
      let dueMs = 0;
      const counted = { get: () => ((reads += 1), dueMs), set: (ms: number) => (dueMs = ms) };
      return Object.defineProperty(deadline, 'dueMs', counted);
    });
    for (let round = 1; round <= 3; round += 1)
      for (const [index, deadline] of all.entries())
        deadlines.set(deadline, 10_000 * round + index);
    for (const deadline of all) deadlines.cancel(deadline);
    // A walk over those that wait would be some thousand each time.
    expect(reads).toBeLessThan(4 * 100 * all.length);
  });

  it('are called in time and once, also those that are set again, or for another time', async () => {
    const again: Named = new Named('again', () => deadlines.set(again, now() + 100));
    const atOnce: Named = new Named('at once', () => called.length < 4 && deadlines.set(atOnce, 0));
    const moved = new Named('moved');
    deadlines.set(again, 100);
    for (const dueMs of [100, 40, 60]) deadlines.set(moved, dueMs);
    await environment.advance(10);
    deadlines.set(new Named('next'), 110);
    deadlines.set(atOnce, 120);
    await environment.advance(150);
    expect(called).toEqual(['moved@60', 'again@100', 'next@110', 'at once@120']);
    deadlines.close();
  });

  it('are called at once after one that blocked the process, or that failed', async () => {
    const fails = new Named('fails', () => {
      throw new Error('broken');
    });
    deadlines.set(new Named('blocks', () => environment.skip(500)), 100);
    deadlines.set(fails, 160);
    deadlines.set(new Named('next'), 160);
    await expect(environment.advance(700)).rejects.toThrow('broken');
    await environment.advance(1);
    expect(called).toEqual(['blocks@100', 'fails@601', 'next@602']);
  });

  it('leave no timer behind when closed by one of them', async () => {
    deadlines.set(new Named('closes', () => deadlines.close()), 100);
    deadlines.set(new Named('next'), 110);
    await environment.advance(200);
    expect([names(), environment.pendingTimers]).toEqual([['closes'], 0]);
  });

  it.each([true, false])(
    'keep the process alive exactly when not in the background: %s',
    (background) => {
      const given: unknown[] = [];
      const timers = {
        set: (...[, , unref]: unknown[]) => void given.push(unref),
        clear: () => undefined,
      };
      const recorded = new Deadlines({ timers } as never, () => 0, { background });
      recorded.set(new Named('any'), 100);
      expect(given).toEqual([background]);
    },
  );
});

describe('deadlines of answers', () => {
  beforeEach(() => {
    deadlines = new Deadlines(environment, now, { awaitsAnswers: true });
  });

  it('look once more after the next poll, for what has arrived meanwhile', async () => {
    const answered = new Named('answered');
    deadlines.set(answered, 100);
    deadlines.set(new Named('unanswered'), 100);
    whenPolled(() => deadlines.cancel(answered));
    environment.skip(150);
    await environment.advance(0);
    expect(names()).toEqual(['unanswered']);
  });

  it('look exactly once more: a loop that is always late still ends its waits', async () => {
    const polls = whenPolled(() => environment.skip(500));
    for (const fromMs of [0, 30]) deadlines.set(new Named(`from ${fromMs}`), fromMs + 100);
    environment.skip(300);
    await environment.advance(0);
    expect([names(), polls()]).toEqual([['from 0', 'from 30'], 1]);
  });

  it('look again for those that became due after that poll, when something else blocked before they were looked at', async () => {
    const answered = new Named('answered');
    const polls = whenPolled(() => {
      if (polls() > 1) deadlines.cancel(answered);
      else environment.skip(500);
    });
    deadlines.set(new Named('late'), 100);
    deadlines.set(answered, 350);
    deadlines.set(new Named('unanswered'), 360);
    environment.skip(300);
    await environment.advance(0);
    expect(names()).toEqual(['late']);
    await environment.advance(600);
    expect([names(), polls()]).toEqual([['late', 'unanswered'], 2]);
  });

  it('call those that were set while they waited for the poll in their own time', async () => {
    deadlines.set(new Named('late'), 100);
    const polls = whenPolled(() => {
      if (polls() === 1) deadlines.set(new Named('new'), now() + 100);
    });
    environment.skip(200);
    await environment.advance(300);
    expect(called).toEqual(['late@200', 'new@300']);
  });

  it('do not wait for a poll where no answer is awaited', async () => {
    deadlines = new Deadlines(environment, now);
    const polls = whenPolled(() => undefined);
    deadlines.set(new Named('first'), 100);
    environment.skip(500);
    await environment.advance(0);
    expect([called, polls()]).toEqual([['first@500'], 0]);
  });

  it('call nothing after they were closed meanwhile', async () => {
    deadlines.set(new Named('late'), 100);
    whenPolled(() => deadlines.close());
    environment.skip(500);
    await environment.advance(1_000);
    expect([called, environment.pendingTimers]).toEqual([[], 0]);
  });
});

describe('callDue', () => {
  it('calls what is due although no timer has fired, and leaves the rest to its time', async () => {
    let suspendedMs = 0;
    deadlines = new Deadlines(environment, () => now() + suspendedMs);
    for (const dueMs of [100, 5_000, 5_001, 5_070]) deadlines.set(new Named(`${dueMs}`), dueMs);
    suspendedMs = 5_000;
    deadlines.callDue();
    expect(names()).toEqual(['100', '5000']);
    await environment.advance(200);
    expect(called.slice(2)).toEqual(['5001@1', '5070@70']);
    expect(environment.pendingTimers).toBe(0);
  });

  it('leaves those alone that are being called, or wait for the poll', async () => {
    deadlines = new Deadlines(environment, now, { awaitsAnswers: true });
    const answered = new Named('answered');
    deadlines.set(answered, 100);
    whenPolled(() => {
      deadlines.callDue();
      deadlines.cancel(answered);
    });
    deadlines.set(new Named('calls', () => deadlines.callDue()), 100);
    deadlines.set(new Named('next'), 100);
    environment.skip(500);
    await environment.advance(0);
    expect(names()).toEqual(['calls', 'next']);
  });
});
