import { describe, expect, it } from '@jest/globals';
import { checkHistory, type Violation } from './check-history.ts';
import type { GrantedEvent, LockHistoryEvent } from './lock-history.ts';

/** A grant of 'seat', valid from 10 to 110 unless said otherwise. */
function granted(holder: string, event: Partial<GrantedEvent> = {}): GrantedEvent {
  const at = event.at ?? 10;
  return {
    type: 'granted',
    process: `process-${holder}`,
    holder,
    keys: ['seat'],
    token: 1,
    startedAt: at - 5,
    at,
    validUntil: at + 100,
    held: true,
    ...event,
  };
}

type HolderEvent = Exclude<Extract<LockHistoryEvent, { holder: string }>, GrantedEvent>;
type Facts<Event> = Event extends unknown ? Omit<Event, 'process' | 'holder'> : never;

const event = (holder: string, facts: Facts<HolderEvent>): LockHistoryEvent => ({
  process: `process-${holder}`,
  holder,
  ...facts,
});
const released = (holder: string, at: number) => event(holder, { type: 'released', at });
const lost = (holder: string, at: number, reason = 'expired') =>
  event(holder, { type: 'lost', at, reason });
const step = (holder: string, at: number) => event(holder, { type: 'step', at });
const left = (holder: string, at: number) => event(holder, { type: 'left', at });
const extended = (holder: string, at: number, validUntil: number) =>
  event(holder, { type: 'extended', at, validUntil });
const reentered = (holder: string, at: number, token: number) =>
  event(holder, { type: 'reentered', at, token });
const stalled = (holder: string, from: number, to: number): LockHistoryEvent => ({
  type: 'stalled',
  process: `process-${holder}`,
  from,
  to,
});

/** A grant at `at`, released at `until`. */
const held = (holder: string, at: number, until: number, more: Partial<GrantedEvent> = {}) => [
  granted(holder, { at, ...more }),
  released(holder, until),
];

function rules(violations: readonly Violation[]): string[] {
  return [...new Set(violations.map(({ rule }) => rule))].sort();
}

describe('checkHistory accepts', () => {
  const next = held('b', 110, 120, { token: 2 });

  it.each<[string, LockHistoryEvent[]]>([
    ['an empty history', []],
    [
      'one grant after the release of another',
      [...held('a', 10, 20), ...held('b', 20, 30, { token: 2, startedAt: 5 })],
    ],
    ['a grant after the validity of a notified holder', [granted('a'), lost('a', 108), ...next]],
    [
      'a grant after the validity of a holder that knew of less time after a suspend',
      [granted('a', { validUntil: 120 }), extended('a', 60, 110), lost('a', 108), ...next],
    ],
    ['a holder that was killed: it cannot be notified', [granted('a'), ...next]],
    ['two keys at once', [...held('a', 10, 20), ...held('b', 10, 20, { keys: ['row'] })]],
    [
      'a set after one of its keys',
      [...held('a', 10, 20), ...held('b', 30, 40, { keys: ['row', 'seat'], token: 2 })],
    ],
    [
      'a smaller token of an attempt that began before the other grant was complete',
      [
        ...held('a', 10, 12, { token: 9, startedAt: 1 }),
        granted('b', { token: 8, startedAt: 10, at: 30, validUntil: 20, held: false }),
      ],
    ],
    [
      'steps, extensions and a re-entry inside validity',
      [
        granted('a'),
        step('a', 50),
        extended('a', 60, 160),
        step('a', 150),
        reentered('a', 151, 1),
        left('a', 152),
        released('a', 155),
      ],
    ],
    [
      'a grant that a stopped process received too late, and that said so',
      [
        granted('a', { at: 300, startedAt: 1, validUntil: 100, held: false }),
        stalled('a', 5, 300),
        lost('a', 301),
        ...held('b', 200, 250, { token: 2, startedAt: 190 }),
      ],
    ],
    [
      'a late notification of a process that did not run',
      [granted('a'), stalled('a', 50, 400), lost('a', 401)],
    ],
    [
      'a late notification because of stalls in a row',
      [granted('a'), stalled('a', 100, 300), stalled('a', 310, 500), lost('a', 510)],
    ],
    ['a release after a loss', [granted('a'), lost('a', 60), released('a', 90)]],
    [
      'a grant after the loss of the earlier holder to others',
      [granted('a'), lost('a', 40, 'taken'), ...held('b', 41, 50, { token: 2 })],
    ],
    [
      'a grant after the release that follows the end of the time',
      [granted('a'), lost('a', 100), released('a', 102), ...held('b', 103, 150, { token: 2 })],
    ],
  ])('%s', (_, history) => {
    expect(checkHistory(history)).toEqual([]);
  });
});

describe('checkHistory finds', () => {
  const DUPLICATE = ['duplicate-token', 'fenced-mutex'];
  const DECREASE = ['decreasing-token', 'fenced-mutex'];
  const OVERLAP = ['fenced-mutex', 'overlapping-validity'];
  const late = [granted('a'), lost('a', 170)];
  const extendedInto = [
    granted('a'),
    extended('a', 90, 200),
    ...held('b', 150, 160, { token: 2 }),
    released('a', 170),
  ];

  /** When it shows, by which rules, in which history, and what the message must name. */
  it.each<[string, number, string[], LockHistoryEvent[], string[]]>([
    [
      'one token for two grants, also with time between them',
      30,
      DUPLICATE,
      [...held('a', 10, 20, { token: 5 }), ...held('b', 30, 40, { token: 5 })],
      ['token 5 of process-a', 'token 5 of process-b'],
    ],
    [
      'one token for two grants on the common key of two sets',
      30,
      DUPLICATE,
      [
        ...held('a', 10, 20, { keys: ['row', 'seat'] }),
        ...held('b', 30, 40, { keys: ['x', 'seat'] }),
      ],
      ["'seat'", 'holder a', 'holder b'],
    ],
    [
      'one identity for two grants',
      30,
      ['duplicate-holder'],
      [granted('a', { validUntil: 20 }), granted('a', { token: 6, at: 30, process: 'process-b' })],
      ['process-a', 'process-b'],
    ],
    [
      'a smaller token for an attempt that began after the other grant',
      30,
      DECREASE,
      [...held('a', 10, 20, { token: 9 }), ...held('b', 30, 40, { token: 8, startedAt: 11 })],
      ['token 8 of process-b', 'token 9 of process-a'],
    ],
    [
      'a smaller token although a middle one lies between',
      30,
      DECREASE,
      [
        granted('a', { token: 9, at: 10, validUntil: 12 }),
        granted('b', { token: 10, startedAt: 11, at: 20, validUntil: 21 }),
        granted('c', { token: 9.5, startedAt: 21, at: 30, validUntil: 31 }),
      ],
      ['token 9.5 of process-c', 'token 10 of process-b'],
    ],
    [
      'a smaller token in a set than on its single key',
      30,
      DECREASE,
      [
        ...held('a', 10, 20, { token: 9 }),
        ...held('b', 30, 40, { token: 8, keys: ['row', 'seat'] }),
      ],
      ["'seat'", 'process-a', 'process-b'],
    ],
    [
      'two holders at once',
      109.5,
      OVERLAP,
      [granted('a'), ...held('b', 109.5, 120, { token: 2 }), lost('a', 110)],
      ['for 0.500 ms', 'token 1 of process-a', 'token 2 of process-b'],
    ],
    [
      'another holder in the time that the first one has to stop',
      105,
      OVERLAP,
      [granted('a'), lost('a', 100), ...held('b', 105, 120, { token: 2 })],
      ['for 5.000 ms', 'believing until 110.000 ms'],
    ],
    [
      'two holders at once because of an extension',
      150,
      OVERLAP,
      extendedInto,
      ['believing until 170.000 ms', 'token 2 of process-b'],
    ],
    [
      'an overlap with a long holder behind a short one',
      515,
      OVERLAP,
      [
        granted('a', { at: 10, token: 1, validUntil: 500 }),
        granted('b', { at: 510, token: 2, validUntil: 520 }),
        granted('c', { at: 515, token: 3, validUntil: 600 }),
      ],
      ['token 2 of process-b', 'token 3 of process-c'],
    ],
    [
      'two holders at once, one of them killed',
      50,
      OVERLAP,
      [granted('a'), ...held('b', 50, 60, { token: 2 })],
      ['process-a', 'process-b'],
    ],
    [
      'a lock that was over when it was granted as held',
      120,
      ['expired-grant'],
      [granted('a', { at: 120, startedAt: 1, validUntil: 110 })],
      ['started 1.000 ms, granted 120.000 ms, valid until 110.000 ms'],
    ],
    [
      'a lock without any validity',
      120,
      ['expired-grant'],
      [granted('a', { at: 120, startedAt: 100, validUntil: 90, held: false })],
      ['valid until 90.000 ms'],
    ],
    [
      'a step after the end of validity',
      111,
      ['step-outside-validity'],
      [granted('a'), step('a', 111), lost('a', 112)],
      ['a step at 111.000 ms', 'ended at 110.000 ms'],
    ],
    [
      'a step after the release',
      21,
      ['step-outside-validity'],
      [...held('a', 10, 20), step('a', 21)],
      ['a step at 21.000 ms', 'ended at 20.000 ms'],
    ],
    [
      'an extension after the release',
      25,
      ['extended-after-end'],
      [...held('a', 10, 20), extended('a', 25, 200)],
      ['extended at 25.000 ms', 'loss at 20.000 ms'],
    ],
    [
      'an extension after the loss',
      25,
      ['extended-after-end'],
      [granted('a'), lost('a', 20), extended('a', 25, 200)],
      ['extended at 25.000 ms', 'loss at 20.000 ms'],
    ],
    [
      'a late loss of a process that ran',
      170,
      ['late-loss'],
      late,
      ['loss at 170.000 ms', 'ended at 110.000 ms'],
    ],
    [
      'a late loss long after the stall that would excuse it',
      260,
      ['late-loss'],
      [granted('a'), stalled('a', 50, 200), lost('a', 260)],
      ['at 260.000 ms', 'ended at 110.000 ms'],
    ],
    [
      'a late loss, with a stall of another process',
      401,
      ['late-loss'],
      [granted('a'), stalled('b', 50, 400), lost('a', 401)],
      ['at 401.000 ms'],
    ],
    [
      'a loss of which a process never learned that ran on',
      110,
      ['untold-loss'],
      [granted('a'), stalled('a', 299, 300)],
      ['never notified of its loss at 110.000 ms', 'still ran at 300.000 ms'],
    ],
    [
      'a release long after validity without a loss',
      110,
      ['untold-loss'],
      held('a', 10, 200),
      ['never notified of its loss at 110.000 ms'],
    ],
    [
      'another token on re-entry',
      20,
      ['fenced-mutex'],
      [granted('a', { token: 4 }), reentered('a', 20, 5), left('a', 21), released('a', 22)],
      ['a enters again with fence 5, having 4'],
    ],
  ])('%s', (_, at, expected, history, names) => {
    const violations = checkHistory(history);
    expect(rules(violations)).toEqual(expected);
    expect([...new Set(violations.map((violation) => violation.at))]).toEqual([at]);
    const naming = violations.filter(({ message }) =>
      names.every((name) => message.includes(name)),
    );
    expect(naming).not.toEqual([]);
    expect(checkHistory([...history].reverse())).toEqual(violations);
  });

  it('for how long two holders overlapped, and nothing else has such a time', () => {
    const overlaps = checkHistory(extendedInto).map(({ rule, overlapMs }) => [rule, overlapMs]);
    expect(overlaps).toContainEqual(['overlapping-validity', 10]);
    expect(overlaps.filter(([, overlapMs]) => overlapMs !== undefined)).toHaveLength(1);
  });

  it('a late loss within a larger tolerance not', () => {
    expect(checkHistory(late, { lossToleranceMs: 60 })).toEqual([]);
  });
});
