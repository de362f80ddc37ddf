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

function of(holder: string): { process: string; holder: string } {
  return { process: `process-${holder}`, holder };
}

const released = (holder: string, at: number): LockHistoryEvent => ({
  type: 'released',
  ...of(holder),
  at,
});
const lost = (holder: string, at: number): LockHistoryEvent => ({
  type: 'lost',
  ...of(holder),
  at,
  reason: 'expired',
});
const step = (holder: string, at: number): LockHistoryEvent => ({
  type: 'step',
  ...of(holder),
  at,
});
const left = (holder: string, at: number): LockHistoryEvent => ({
  type: 'left',
  ...of(holder),
  at,
});
const extended = (holder: string, at: number, validUntil: number): LockHistoryEvent => ({
  type: 'extended',
  ...of(holder),
  at,
  validUntil,
});
const reentered = (holder: string, at: number, token: number): LockHistoryEvent => ({
  type: 'reentered',
  ...of(holder),
  at,
  token,
});
const stalled = (holder: string, from: number, to: number): LockHistoryEvent => ({
  type: 'stalled',
  process: `process-${holder}`,
  from,
  to,
});

function rules(violations: readonly Violation[]): string[] {
  return [...new Set(violations.map(({ rule }) => rule))].sort();
}

describe('checkHistory accepts', () => {
  const right: Record<string, LockHistoryEvent[]> = {
    'an empty history': [],
    'one grant after the release of another': [
      granted('a', { token: 1, at: 10 }),
      released('a', 20),
      granted('b', { token: 2, at: 20, startedAt: 5 }),
      released('b', 30),
    ],
    'a grant after the validity of a holder that was told': [
      granted('a', { at: 10 }),
      lost('a', 108),
      granted('b', { token: 2, at: 110 }),
      released('b', 120),
    ],
    'a holder that was killed: it cannot be told': [
      granted('a', { at: 10 }),
      granted('b', { token: 2, at: 110 }),
      released('b', 120),
    ],
    'two keys at once': [
      granted('a', { keys: ['seat'], token: 7 }),
      granted('b', { keys: ['row'], token: 7 }),
      released('a', 20),
      released('b', 20),
    ],
    'a set after one of its keys': [
      granted('a', { keys: ['seat'], token: 1, at: 10 }),
      released('a', 20),
      granted('b', { keys: ['row', 'seat'], token: 2, at: 30 }),
      released('b', 40),
    ],
    'a smaller token of an attempt that began before the other grant was complete': [
      granted('a', { token: 9, startedAt: 1, at: 10 }),
      released('a', 12),
      granted('b', { token: 8, startedAt: 10, at: 30, validUntil: 20, held: false }),
    ],
    'steps, extensions and a re-entry inside validity': [
      granted('a'),
      step('a', 50),
      extended('a', 60, 160),
      step('a', 150),
      reentered('a', 151, 1),
      left('a', 152),
      released('a', 155),
    ],
    'a grant that a stopped process received too late, and that said so': [
      granted('a', { at: 300, startedAt: 1, validUntil: 100, held: false }),
      stalled('a', 5, 300),
      lost('a', 301),
      granted('b', { token: 2, at: 200, startedAt: 190 }),
      released('b', 250),
    ],
    'a loss told late because the process did not run': [
      granted('a'),
      stalled('a', 50, 400),
      lost('a', 401),
    ],
    'a loss told late because of stalls in a row': [
      granted('a'),
      stalled('a', 100, 300),
      stalled('a', 310, 500),
      lost('a', 510),
    ],
    'a release after a loss': [granted('a'), lost('a', 60), released('a', 90)],
  };

  it.each(Object.entries(right))('%s', (_, history) => {
    expect(checkHistory(history)).toEqual([]);
  });
});

describe('checkHistory finds', () => {
  interface Wrong {
    readonly history: LockHistoryEvent[];
    readonly rules: string[];
    /** Both events, as the message must name them. */
    readonly names: readonly string[];
  }

  const wrong: Record<string, Wrong> = {
    'one token for two grants, also with time between them': {
      history: [
        granted('a', { token: 5, at: 10 }),
        released('a', 20),
        granted('b', { token: 5, at: 30 }),
        released('b', 40),
      ],
      rules: ['duplicate-token', 'fenced-mutex', 'reentrant-fenced-mutex'],
      names: ['token 5 of process-a', 'token 5 of process-b'],
    },
    'one token for two grants on the common key of two sets': {
      history: [
        granted('a', { keys: ['row', 'seat'], token: 5, at: 10 }),
        released('a', 20),
        granted('b', { keys: ['aisle', 'seat'], token: 5, at: 30 }),
        released('b', 40),
      ],
      rules: ['duplicate-token', 'fenced-mutex', 'reentrant-fenced-mutex'],
      names: ["'seat'", 'holder a', 'holder b'],
    },
    'one holder for two grants': {
      history: [
        granted('a', { token: 5, at: 10, validUntil: 20 }),
        granted('a', { token: 6, at: 30, validUntil: 40, process: 'process-b' }),
      ],
      rules: ['duplicate-holder'],
      names: ['process-a', 'process-b'],
    },
    'a smaller token for an attempt that began after the other grant': {
      history: [
        granted('a', { token: 9, at: 10 }),
        released('a', 20),
        granted('b', { token: 8, startedAt: 11, at: 30 }),
        released('b', 40),
      ],
      rules: ['decreasing-token', 'fenced-mutex', 'reentrant-fenced-mutex'],
      names: ['token 8 of process-b', 'token 9 of process-a'],
    },
    'a smaller token although a middle one lies between': {
      history: [
        granted('a', { token: 9, at: 10, validUntil: 12 }),
        granted('b', { token: 10, startedAt: 11, at: 20, validUntil: 21 }),
        granted('c', { token: 9.5, startedAt: 21, at: 30, validUntil: 31 }),
      ],
      rules: ['decreasing-token', 'fenced-mutex', 'reentrant-fenced-mutex'],
      names: ['token 9.5 of process-c', 'token 10 of process-b'],
    },
    'a smaller token in a set than on its single key': {
      history: [
        granted('a', { keys: ['seat'], token: 9, at: 10 }),
        released('a', 20),
        granted('b', { keys: ['row', 'seat'], token: 8, at: 30 }),
        released('b', 40),
      ],
      rules: ['decreasing-token', 'fenced-mutex', 'reentrant-fenced-mutex'],
      names: ["'seat'", 'process-a', 'process-b'],
    },
    'two holders at once': {
      history: [
        granted('a', { at: 10 }),
        granted('b', { token: 2, at: 109.5 }),
        lost('a', 110),
        released('b', 120),
      ],
      rules: ['fenced-mutex', 'overlapping-validity', 'reentrant-fenced-mutex'],
      names: ['for 0.500 ms', 'token 1 of process-a', 'token 2 of process-b'],
    },
    'two holders at once because of an extension': {
      history: [
        granted('a', { at: 10 }),
        extended('a', 90, 200),
        granted('b', { token: 2, at: 150 }),
        released('b', 160),
        released('a', 170),
      ],
      rules: ['fenced-mutex', 'overlapping-validity', 'reentrant-fenced-mutex'],
      names: ['believing until 170.000 ms', 'token 2 of process-b'],
    },
    'an overlap with a long holder behind a short one': {
      history: [
        granted('a', { at: 10, token: 1, validUntil: 500 }),
        granted('b', { at: 510, token: 2, validUntil: 520 }),
        granted('c', { at: 515, token: 3, validUntil: 600 }),
      ],
      rules: ['fenced-mutex', 'overlapping-validity', 'reentrant-fenced-mutex'],
      names: ['token 2 of process-b', 'token 3 of process-c'],
    },
    'two holders at once, one of them killed': {
      history: [granted('a', { at: 10 }), granted('b', { token: 2, at: 50 }), released('b', 60)],
      rules: ['fenced-mutex', 'overlapping-validity', 'reentrant-fenced-mutex'],
      names: ['process-a', 'process-b'],
    },
    'a lock that was over when it was granted as held': {
      history: [granted('a', { at: 120, startedAt: 1, validUntil: 110 })],
      rules: ['expired-grant'],
      names: ['started 1.000 ms, granted 120.000 ms, valid until 110.000 ms'],
    },
    'a lock without any validity': {
      history: [granted('a', { at: 120, startedAt: 100, validUntil: 90, held: false })],
      rules: ['expired-grant'],
      names: ['valid until 90.000 ms'],
    },
    'a step after the end of validity': {
      history: [granted('a'), step('a', 111), lost('a', 112)],
      rules: ['step-outside-validity'],
      names: ['a step at 111.000 ms', 'ended at 110.000 ms'],
    },
    'a step after the release': {
      history: [granted('a'), released('a', 20), step('a', 21)],
      rules: ['step-outside-validity'],
      names: ['a step at 21.000 ms', 'ended at 20.000 ms'],
    },
    'an extension after the release': {
      history: [granted('a'), released('a', 20), extended('a', 25, 200)],
      rules: ['extended-after-end'],
      names: ['extended at 25.000 ms', 'loss at 20.000 ms'],
    },
    'an extension after the loss': {
      history: [granted('a'), lost('a', 20), extended('a', 25, 200)],
      rules: ['extended-after-end'],
      names: ['extended at 25.000 ms', 'loss at 20.000 ms'],
    },
    'a loss told after validity by a process that ran': {
      history: [granted('a'), lost('a', 170)],
      rules: ['late-loss'],
      names: ['told of its loss at 170.000 ms', 'ended at 110.000 ms'],
    },
    'a loss told long after the stall that would excuse it': {
      history: [granted('a'), stalled('a', 50, 200), lost('a', 260)],
      rules: ['late-loss'],
      names: ['at 260.000 ms', 'ended at 110.000 ms'],
    },
    'a loss told late, with a stall of another process': {
      history: [granted('a'), stalled('b', 50, 400), lost('a', 401)],
      rules: ['late-loss'],
      names: ['at 401.000 ms'],
    },
    'a loss that was never told by a process that ran on': {
      history: [
        granted('a'),
        { type: 'refused', process: 'process-a', keys: ['x'], at: 300, code: 'LOCK_BUSY' },
      ],
      rules: ['untold-loss'],
      names: ['never told of its loss at 110.000 ms', 'still ran at 300.000 ms'],
    },
    'a release long after validity without a loss': {
      history: [granted('a'), released('a', 200)],
      rules: ['untold-loss'],
      names: ['never told of its loss at 110.000 ms'],
    },
    'another token on re-entry': {
      history: [
        granted('a', { token: 4 }),
        reentered('a', 20, 5),
        left('a', 21),
        released('a', 22),
      ],
      rules: ['reentrant-fenced-mutex'],
      names: ['a enters again with fence 5, having 4'],
    },
  };

  it.each(Object.entries(wrong))('%s', (_, { history, rules: expected, names }) => {
    const violations = checkHistory(history);
    expect(rules(violations)).toEqual(expected);
    const messages = violations.map(({ message }) => message);
    expect(messages.filter((message) => names.every((name) => message.includes(name)))).not.toEqual(
      [],
    );
  });

  it('the same whatever the order of the events in the merged history', () => {
    const history = wrong['two holders at once because of an extension']!.history;
    expect(checkHistory([...history].reverse())).toEqual(checkHistory(history));
  });

  it('an overlap only up to the loss of the earlier holder', () => {
    const history = [
      granted('a', { at: 10 }),
      lost('a', 40),
      granted('b', { token: 2, at: 41 }),
      released('b', 50),
    ];
    expect(checkHistory(history)).toEqual([]);
  });

  it('for how long two holders overlapped, and nothing else has such a time', () => {
    const { history } = wrong['two holders at once because of an extension']!;
    const overlaps = checkHistory(history).map(({ rule, overlapMs }) => [rule, overlapMs]);
    expect(overlaps).toContainEqual(['overlapping-validity', 10]);
    expect(overlaps.filter(([, overlapMs]) => overlapMs !== undefined)).toHaveLength(1);
  });

  it.each<[keyof typeof wrong, number]>([
    ['one token for two grants, also with time between them', 30],
    ['one holder for two grants', 30],
    ['a smaller token for an attempt that began after the other grant', 30],
    ['two holders at once because of an extension', 150],
    ['a lock that was over when it was granted as held', 120],
    ['a step after the end of validity', 111],
    ['an extension after the release', 25],
    ['a loss told after validity by a process that ran', 170],
    ['a loss that was never told by a process that ran on', 110],
    ['another token on re-entry', 20],
  ])('when it showed: %s', (name, at) => {
    const violations = checkHistory(wrong[name]!.history);
    expect([...new Set(violations.map((violation) => violation.at))]).toEqual([at]);
  });

  it('a late loss within a larger tolerance not', () => {
    const history = [granted('a'), lost('a', 170)];
    expect(checkHistory(history, { lossToleranceMs: 60 })).toEqual([]);
  });
});
