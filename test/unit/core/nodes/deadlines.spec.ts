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

describe('deadlines of many delays', () => {
  it('leave no timer for each of them when they are cancelled, and those that are left are called', async () => {
    const left = [1_500, 2_500, 2_999];
    for (let delayMs = 1_000; delayMs < 3_000; delayMs += 1) {
      const deadline = new Named(`${delayMs}`);
      deadlines.set(deadline, delayMs, now());
      if (!left.includes(delayMs)) deadlines.cancel(deadline);
      expect(environment.pendingTimers).toBeLessThan(100);
    }
    await environment.advance(3_000);
    expect(called).toEqual(left.map((delayMs) => `${delayMs}@${delayMs}`));
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('deadlines of many delays that wait at once', () => {
  it('leave no timer for each of them when they are cancelled, in whatever order', async () => {
    const all = Array.from({ length: 5_000 }, (_, index) => new Named(`${index}`));
    for (const [index, deadline] of all.entries()) deadlines.set(deadline, 10_000 + index, now());
    for (const deadline of all.slice(1)) deadlines.cancel(deadline);
    expect(environment.pendingTimers).toBeLessThan(100);
    // The same delays again: an unused timer that is used counts no more.
    for (let round = 0; round < 3; round += 1) {
      for (const deadline of all.slice(1, 100)) deadlines.set(deadline, 20_000, now());
      for (const deadline of all.slice(1, 100)) deadlines.cancel(deadline);
    }
    await environment.advance(20_000);
    expect([called, environment.pendingTimers]).toEqual([['0@10000'], 0]);
  });
});

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
    // A few for each of them.
    expect(reads).toBeLessThan(20 * all.length);
    await environment.advance(20_000);
    expect(names()).toEqual(all.map((_, index) => `${index}`));
  });
});

describe('deadlines of one delay', () => {
  it('are called at once when the process was stopped while their timer was set', async () => {
    // Between the look at the clock and the timer, which counts from then on.
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

  it('come early with another one as far as they allow, a few hundred in one turn', async () => {
    class Early extends Named {
      override earlyMs = 12;
    }
    deadlines.set(new Named('exact'), 100, 0);
    for (const fromMs of [1, 12, 13]) deadlines.set(new Early(`early${fromMs}`), 100, fromMs);
    await environment.advance(200);
    expect(called).toEqual(['exact@100', 'early1@100', 'early12@100', 'early13@113']);
    called = [];
    const again: Early = new Early('again', () => {
      if (called.length < 5) deadlines.set(again, 10, now());
    });
    deadlines.set(again, 10, now());
    await environment.advance(100);
    expect(called).toEqual([210, 220, 230, 240, 250].map((atMs) => `again@${atMs}`));
    called = [];
    for (let index = 0; index < 600; index += 1) deadlines.set(new Early('many'), 100, now());
    for (let index = 0; index < 600; index += 1) deadlines.set(new Named('exact'), 40, now());
    await environment.advance(200);
    const counts = new Map<string, number>();
    for (const each of called) counts.set(each, (counts.get(each) ?? 0) + 1);
    expect([...counts]).toEqual([
      ['exact@340', 600],
      ['many@400', 256],
      ['many@401', 256],
      ['many@402', 88],
    ]);
  });

  it('are called at once after one that blocked the process, or that failed', async () => {
    deadlines.set(new Named('blocks', () => environment.skip(500)), 100, 0);
    deadlines.set(
      new Named('fails', () => {
        throw new Error('broken');
      }),
      100,
      60,
    );
    deadlines.set(new Named('next'), 100, 60);
    await expect(environment.advance(700)).rejects.toThrow('broken');
    await environment.advance(1);
    expect(called).toEqual(['blocks@100', 'fails@601', 'next@602']);
  });

  it('leave no timer behind when closed by one of them', async () => {
    deadlines.set(new Named('closes', () => deadlines.close()), 100, 0);
    deadlines.set(new Named('next'), 100, 10);
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
      recorded.set(new Named('any'), 100, 0);
      expect(given).toEqual([background]);
    },
  );
});

describe('a line that fires late', () => {
  beforeEach(() => {
    deadlines = new Deadlines(environment, now, { awaitsAnswers: true });
  });

  it.each([
    [100, 10, false],
    [100, 11, true],
    [20, 5, false],
    [20, 6, true],
  ])(
    'of %i ms, by %i ms, looks once more after the next poll: %s',
    async (delayMs, lateMs, again) => {
      const answered = new Named('answered');
      deadlines.set(answered, delayMs, 0);
      deadlines.set(new Named('unanswered'), delayMs, 0);
      whenPolled(() => deadlines.cancel(answered));
      environment.skip(delayMs + lateMs);
      await environment.advance(0);
      expect(names()).toEqual(again ? ['unanswered'] : ['answered', 'unanswered']);
    },
  );

  it('looks exactly once more: a loop that is always late still ends its waits', async () => {
    const polls = whenPolled(() => environment.skip(500));
    for (const fromMs of [0, 30]) deadlines.set(new Named(`from ${fromMs}`), 100, fromMs);
    environment.skip(300);
    await environment.advance(0);
    expect([names(), polls()]).toEqual([['from 0', 'from 30'], 1]);
  });

  it('looks again for those that became due after that poll, when something else blocked before they were looked at', async () => {
    const answered = new Named('answered');
    const polls = whenPolled(() => {
      if (polls() > 1) deadlines.cancel(answered);
      else environment.skip(500);
    });
    deadlines.set(new Named('late'), 100, 0);
    deadlines.set(answered, 100, 250);
    deadlines.set(new Named('unanswered'), 100, 260);
    environment.skip(300);
    await environment.advance(0);
    expect(names()).toEqual(['late']);
    await environment.advance(600);
    expect([names(), polls()]).toEqual([['late', 'unanswered'], 2]);
  });

  it('calls those that were set while it waited for the poll in their own time', async () => {
    deadlines.set(new Named('late'), 100, 0);
    whenPolled(() => deadlines.set(new Named('new'), 100, now()));
    environment.skip(200);
    await environment.advance(300);
    expect(called).toEqual(['late@200', 'new@300']);
  });

  it('is called at once where no answer is awaited', async () => {
    deadlines = new Deadlines(environment, now);
    const polls = whenPolled(() => undefined);
    deadlines.set(new Named('first'), 100, 0);
    environment.skip(500);
    await environment.advance(0);
    expect([called, polls()]).toEqual([['first@500'], 0]);
  });

  it('calls nothing after it was closed meanwhile', async () => {
    deadlines.set(new Named('late'), 100, 0);
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
    for (const delayMs of [100, 5_000, 5_001]) deadlines.set(new Named(`${delayMs}`), delayMs, 0);
    deadlines.set(new Named('later'), 5_000, 70);
    suspendedMs = 5_000;
    deadlines.callDue();
    expect(names()).toEqual(['100', '5000']);
    await environment.advance(200);
    expect(called.slice(2)).toEqual(['5001@1', 'later@70']);
    expect(environment.pendingTimers).toBe(0);
  });

  it('leaves a line alone that is being called, or waits for the poll', async () => {
    deadlines = new Deadlines(environment, now, { awaitsAnswers: true });
    const answered = new Named('answered');
    deadlines.set(answered, 100, 0);
    whenPolled(() => {
      deadlines.callDue();
      deadlines.cancel(answered);
    });
    deadlines.set(new Named('calls', () => deadlines.callDue()), 100, 0);
    deadlines.set(new Named('next'), 100, 0);
    environment.skip(500);
    await environment.advance(0);
    expect(names()).toEqual(['calls', 'next']);
  });
});
