import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { CampaignEvent } from '../campaign-event.ts';
import { checkRun } from './check-run.ts';
import { rightRun, type Turn } from './right-run.ts';
import { runLimits } from './run-limits.ts';

const KEYS = ['a', 'b', 'c'];
const PROCESSES = ['worker-0/0', 'worker-1/0', 'worker-2/0', 'worker-3/0'];
const MANY = 50_000;

const anyTurn: fc.Arbitrary<Turn> = fc.record({
  keys: fc.subarray(KEYS, { minLength: 1, maxLength: 2 }),
  process: fc.constantFrom(...PROCESSES),
  gapMs: fc.integer({ min: 0, max: 470 }).map((ms) => ms + 1),
  holdMs: fc.integer({ min: 3, max: 900 }),
  runsOut: fc.boolean(),
});
/** Asked for by a process that never stalls, so that there is something to be judged. */
const FIRST_TURN: Turn = {
  keys: ['first'],
  process: 'starter',
  gapMs: 1,
  holdMs: 3,
  runsOut: false,
};
const anyTurns = fc
  .array(anyTurn, { minLength: 4, maxLength: 25 })
  .map((turns) => [FIRST_TURN, ...turns]);

function rulesOf(events: readonly CampaignEvent[]): string[] {
  const { violations } = checkRun(events, runLimits());
  return [...new Set(violations.map(({ rule }) => rule))].sort();
}

describe('whatever happens in a right run', () => {
  it('breaks nothing', () => {
    fc.assert(
      fc.property(anyTurns, (turns) => {
        expect(checkRun(rightRun(turns), runLimits()).violations).toEqual([]);
      }),
    );
  });

  it('is judged the same in every order of the processes', () => {
    fc.assert(
      fc.property(
        anyTurns,
        fc.shuffledSubarray([...PROCESSES, 'starter', 'resource', 'campaign'], {
          minLength: PROCESSES.length + 3,
        }),
        (turns, order) => {
          const events = withBrokenChains(rightRun(turns));
          const sorted = order.flatMap((process) =>
            events.filter((event) => event.process === process),
          );
          expect(sorted).toHaveLength(events.length);
          expect(checkRun(sorted, runLimits())).toEqual(checkRun(events, runLimits()));
        },
      ),
    );
  });

  it('counts', () => {
    fc.assert(
      fc.property(anyTurns, (turns) => {
        const { measures } = checkRun(rightRun(turns), runLimits());
        const singles = turns.filter(({ keys }) => keys.length === 1);
        expect(measures).toMatchObject({
          grants: turns.length,
          losses: turns.filter(({ runsOut }) => runsOut).length,
          longestOverlapMs: 0,
          latestLossMs: 0,
        });
        expect(measures.longestIdleGapMs).toBeLessThanOrEqual(
          Math.max(0, ...singles.map(({ gapMs }) => gapMs)),
        );
        expect(measures.unfencedStaleWrites).toBe(measures.fencedRefusals);
      }),
    );
  });
});

/** Some records get a number that does not follow, so that there is something to find. */
function withBrokenChains(events: readonly CampaignEvent[]): CampaignEvent[] {
  return events.map((event, index) =>
    event.type === 'access' && index % 5 === 0 ? { ...event, value: event.value + 7 } : event,
  );
}

type Change = (event: CampaignEvent) => CampaignEvent | undefined;

/** What one wrong event of a right run breaks; undefined where the event does not lend itself. */
const WRONGS: Record<string, Change> = {
  'stale-write-accepted': (event) =>
    event.type === 'access' && !event.accepted ? { ...event, accepted: true } : undefined,
  'lost-update': (event) =>
    event.type === 'access' &&
    event.view === 'fenced' &&
    event.operation === 'write' &&
    event.accepted
      ? { ...event, value: event.value + 1 }
      : undefined,
  'access-without-grant': (event) =>
    event.type === 'access' ? { ...event, token: event.token + 0.5 } : undefined,
  'late-loss': (event) => (event.type === 'lost' ? { ...event, at: event.at + 101 } : undefined),
  'untold-loss': (event) =>
    event.type === 'lost'
      ? { ...event, type: 'left', holder: 'nobody', at: event.at + 101 }
      : undefined,
  'unexpected-refusal': (event) =>
    event.type === 'answered' ? { ...event, outcome: 'LOCK_LOST' } : undefined,
  'acquire-over-budget': (event) =>
    event.type === 'asked' ? { ...event, at: event.at - 400, waitMs: 1 } : undefined,
  'release-over-budget': (event) =>
    event.type === 'release-answered' ? { ...event, at: event.at + 30_000 } : undefined,
  'expired-grant': (event) =>
    event.type === 'granted' ? { ...event, validUntil: event.at } : undefined,
  'legitimate-holder-refused': (event) =>
    event.type === 'access' && event.operation === 'read' && event.view === 'fenced'
      ? { ...event, accepted: false }
      : undefined,
};

describe('one wrong event in a right run breaks', () => {
  it.each(Object.entries(WRONGS))('%s', (rule, change) => {
    let found = 0;
    fc.assert(
      fc.property(anyTurns, fc.nat(), (turns, choice) => {
        // In processes of their own, so that no stall of another turn excuses it.
        const events = rightRun(
          turns.map((turn, index) => ({ ...turn, process: `solo-${index}` })),
        );
        const fitting = events.flatMap((event, index) => (change(event) ? [index] : []));
        if (fitting.length === 0) return;
        const chosen = fitting[choice % fitting.length]!;
        const wrong = events.map((event, index) => (index === chosen ? change(event)! : event));
        expect(rulesOf(wrong)).toContain(rule);
        found += 1;
      }),
    );
    expect(found).toBeGreaterThan(20);
  });
});

describe('a long history', () => {
  function longRun(events: number): CampaignEvent[] {
    const turns = Array.from({ length: events / 9 }, (_, index): Turn => ({
      keys: index % 7 === 0 ? ['a', 'b'] : [KEYS[index % 3]!],
      process: PROCESSES[index % 4]!,
      gapMs: 1 + (index % 13),
      holdMs: 5 + (index % 31),
      runsOut: index % 50 === 0,
    }));
    return rightRun(turns);
  }

  /** Time of the processor, not of the clock: other work on the machine does not count. */
  function costOf(events: readonly CampaignEvent[]): number {
    const costs = Array.from({ length: 3 }, () => {
      const before = process.cpuUsage();
      expect(checkRun(events, runLimits()).violations).toEqual([]);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    });
    return Math.min(...costs);
  }

  it('is judged in time that grows with its length, and not with the square of it', () => {
    const [short, long] = [longRun(MANY / 10), longRun(MANY)];
    expect(long.length).toBeGreaterThan(MANY * 0.9);
    expect(costOf(long) / costOf(short)).toBeLessThan(40);
  });
});
