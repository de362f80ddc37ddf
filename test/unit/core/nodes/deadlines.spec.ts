import { beforeEach, describe, expect, it } from '@jest/globals';
import { Deadline, Deadlines } from '../../../../lib/core/nodes/deadlines.ts';
import type { DeadlinesOptions } from '../../../../lib/core/nodes/deadlines.ts';
import { ManualEnvironment, seededRandom } from '../../../support/manual-environment.ts';

let environment: ManualEnvironment;
/** What was called, and when. */
let called: [name: string, atMs: number][];
const now = () => environment.clock.monotonicMs();

beforeEach(() => {
  environment = new ManualEnvironment();
  called = [];
});

class Named extends Deadline {
  readonly #name: string;
  readonly #then: (() => void) | undefined;

  constructor(name: string, then?: () => void) {
    super();
    this.#name = name;
    this.#then = then;
  }

  onDeadline(): void {
    called.push([this.#name, now()]);
    this.#then?.();
  }
}

const newDeadlines = (options?: DeadlinesOptions) => new Deadlines(environment, now, options);

/** What happens when the sockets are read, before who waits for that is called; returns how often that was. */
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

describe('deadlines of one delay', () => {
  it('are called in the order in which they end, also those that began in the past', async () => {
    const deadlines = newDeadlines();
    const { fraction } = seededRandom(5);
    const begins = Array.from({ length: 200 }, () => Math.floor(fraction() * 100));
    const cancelled = new Set<number>();
    const all = begins.map((_, index) => new Named(`${index}`));
    for (const [index, fromMs] of begins.entries()) {
      deadlines.set(all[index]!, 100, fromMs);
      const other = Math.floor(fraction() * index);
      if (fraction() < 0.3 && cancelled.add(other)) deadlines.cancel(all[other]!);
    }
    expect(environment.pendingTimers).toBe(1);
    await environment.advance(300);
    const expected = begins.flatMap((fromMs, index) =>
      cancelled.has(index) ? [] : [fromMs + 100],
    );
    expect(called.map(([, atMs]) => atMs)).toEqual(expected.sort((a, b) => a - b));
    expect(called.every(([name, atMs]) => atMs === begins[Number(name)]! + 100)).toBe(true);
    expect(environment.pendingTimers).toBe(0);
  });

  it('are each called in time, also when the one before sets itself again', async () => {
    const deadlines = newDeadlines();
    const again: Named = new Named('again', () => deadlines.set(again, 100, now()));
    deadlines.set(again, 100, now());
    await environment.advance(10);
    deadlines.set(new Named('next'), 100, now());
    await environment.advance(150);
    expect(called).toEqual([
      ['again', 100],
      ['next', 110],
    ]);
    deadlines.close();
  });

  it('are called at their new time when they are set once more', async () => {
    const deadlines = newDeadlines();
    const moved = new Named('moved');
    deadlines.set(moved, 100, 0);
    deadlines.set(moved, 40, 0);
    deadlines.set(moved, 60, 0);
    await environment.advance(300);
    expect(called).toEqual([['moved', 60]]);
  });

  it('are called at once after one whose callback blocked the process', async () => {
    const deadlines = newDeadlines();
    deadlines.set(new Named('blocks', () => environment.skip(500)), 100, 0);
    deadlines.set(new Named('next'), 100, 60);
    await environment.advance(700);
    expect(called).toEqual([
      ['blocks', 100],
      ['next', 601],
    ]);
  });

  it('go on when one of them throws', async () => {
    const deadlines = newDeadlines();
    const broken = new Error('broken');
    const throwing = new Named('throws', () => {
      throw broken;
    });
    deadlines.set(throwing, 100, 0);
    deadlines.set(new Named('next'), 100, 0);
    await expect(environment.advance(100)).rejects.toBe(broken);
    await environment.advance(1);
    expect(called.map(([name]) => name)).toEqual(['throws', 'next']);
  });

  it('leave no timer behind when closed by one of them', async () => {
    const deadlines = newDeadlines();
    deadlines.set(new Named('closes', () => deadlines.close()), 100, 0);
    deadlines.set(new Named('next'), 100, 10);
    await environment.advance(200);
    expect(called).toEqual([['closes', 100]]);
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('a line that fires late', () => {
  it.each([
    [100, 10, false],
    [100, 11, true],
    [20, 5, false],
    [20, 6, true],
  ])(
    'of %i ms, by %i ms, looks once more after the next poll: %s',
    async (delayMs, lateMs, again) => {
      const deadlines = newDeadlines({ awaitsAnswers: true });
      const answered = new Named('answered');
      deadlines.set(answered, delayMs, 0);
      deadlines.set(new Named('unanswered'), delayMs, 0);
      whenPolled(() => deadlines.cancel(answered));
      environment.skip(delayMs + lateMs);
      await environment.advance(0);
      const expected = again ? ['unanswered'] : ['answered', 'unanswered'];
      expect(called.map(([name]) => name)).toEqual(expected);
      deadlines.close();
    },
  );

  it('looks exactly once more: a loop that is always late still ends its waits', async () => {
    const deadlines = newDeadlines({ awaitsAnswers: true });
    const polls = whenPolled(() => environment.skip(500));
    for (const fromMs of [0, 30]) deadlines.set(new Named(`from ${fromMs}`), 100, fromMs);
    environment.skip(300);
    await environment.advance(0);
    expect([called.map(([name]) => name), polls()]).toEqual([['from 0', 'from 30'], 1]);
  });

  it('calls those that were set while it waited for the poll in their own time', async () => {
    const deadlines = newDeadlines({ awaitsAnswers: true });
    deadlines.set(new Named('late'), 100, 0);
    whenPolled(() => deadlines.set(new Named('new'), 100, now()));
    environment.skip(200);
    await environment.advance(300);
    expect(called).toEqual([
      ['late', 200],
      ['new', 300],
    ]);
  });

  it('is called at once where no answer is awaited', async () => {
    const deadlines = newDeadlines();
    const polls = whenPolled(() => undefined);
    deadlines.set(new Named('first'), 100, 0);
    environment.skip(500);
    await environment.advance(0);
    expect([called, polls()]).toEqual([[['first', 500]], 0]);
  });

  it('calls nothing after it was closed meanwhile', async () => {
    const deadlines = newDeadlines({ awaitsAnswers: true });
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
    const deadlines = new Deadlines(environment, () => now() + suspendedMs);
    for (const delayMs of [100, 5_000, 5_001]) deadlines.set(new Named(`${delayMs}`), delayMs, 0);
    deadlines.set(new Named('later'), 5_000, 70);
    suspendedMs = 5_000;
    deadlines.callDue();
    expect(called.map(([name]) => name)).toEqual(['100', '5000']);
    await environment.advance(200);
    expect(called.slice(2)).toEqual([
      ['5001', 1],
      ['later', 70],
    ]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('leaves a line alone that is being called, or waits for the poll', async () => {
    const deadlines = newDeadlines({ awaitsAnswers: true });
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
    expect(called.map(([name]) => name)).toEqual(['calls', 'next']);
  });
});

describe('deadlines in the background', () => {
  it.each([true, false])('keep the process alive exactly when they are not: %s', (background) => {
    const given: unknown[] = [];
    const { timers } = environment;
    const recorded = {
      ...timers,
      set: (callback: () => void, delayMs: number, unref?: boolean) => {
        given.push(unref);
        return timers.set(callback, delayMs);
      },
    };
    const options = { background };
    const deadlines = new Deadlines(
      { ...environment, timers: recorded } as never,
      () => 0,
      options,
    );
    deadlines.set(new Named('any'), 100, 0);
    expect(given).toEqual([background]);
  });
});
