import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent, ProblemEvent } from '../campaign-event.ts';
import { checkRun } from './check-run.ts';
import { runLimits } from './run-limits.ts';
import {
  access,
  brokenRules,
  clocksMoved,
  closed,
  ELSEWHERE,
  granted,
  held,
  judge,
  lost,
  mark,
  measure,
  outage,
  released,
  stalled,
  voted,
  waiter,
} from './written-events.ts';

describe('the history of locks', () => {
  const by = (at: number, what: 'stopped' | 'resumed' | 'killed') =>
    mark(at, { mark: `worker-${what}`, worker: 'process-a' });
  const late = [granted('a', 0), lost('a', 3_000)];
  const moment = held('b', 2_000, 2_001, { process: 'process-a', keys: ['row'], token: 2 });

  it.each<[string, CampaignEvent[], string[]]>([
    ['holders one after the other', [...held('a', 0, 10), ...held('b', 10, 20, { token: 2 })], []],
    [
      'two at once',
      [...held('a', 0, 10), ...held('b', 9, 20, { token: 2 })],
      ['fenced-mutex', 'overlapping-validity'],
    ],
    [
      'one token twice',
      [...held('a', 0, 10), ...held('b', 20, 30)],
      ['duplicate-token', 'fenced-mutex'],
    ],
    ['a loss that was noticed late', [granted('a', 0), lost('a', 1_088.1)], ['late-loss']],
    ['a loss that was noticed in time', [granted('a', 0), lost('a', 1_088)], []],
    ['a late loss of a process that did not run', [...late, stalled('process-a', 900, 2_990)], []],
    ['a late loss of one that was killed', [...late, by(3_001, 'killed')], ['late-loss']],
    [
      'a late loss of one that was killed before it could tell that it had been stopped',
      [...late, by(900, 'stopped'), by(2_990, 'resumed'), by(3_001, 'killed')],
      [],
    ],
    [
      'the silence of one that was stopped',
      [late[0]!, by(900, 'stopped'), by(2_990, 'resumed')],
      [],
    ],
    ['the silence in which one died', [late[0]!, by(5_000, 'killed')], []],
    [
      'the silence of a stall in which one died, although it ran for a moment in between',
      [late[0]!, ...moment, stalled('process-a', 900, 2_990, true), by(2_990, 'killed')],
      [],
    ],
    [
      'the silence of one that ran on for some time before that stall',
      [late[0]!, ...moment, stalled('process-a', 1_089, 2_990, true), by(2_990, 'killed')],
      ['untold-loss'],
    ],
  ])('is checked: %s', (_, events, rules) => {
    expect(brokenRules(events)).toEqual(rules);
  });

  it('has its longest overlap measured', () => {
    const events = [
      ...held('a', 0, 100),
      ...held('b', 60, 200, { token: 2 }),
      ...held('c', 190, 300, { token: 3 }),
    ];
    expect(measure(events).longestOverlapMs).toBe(40);
  });
});

describe('where the clocks of a majority may jump', () => {
  const overlapMs = 440;
  /** With bare quorums, and only server 2 in common, which forgot. */
  const alone = (at: number, token: number) => [
    ...held('a', 0, 500, { token: 5 }),
    ...held('b', at, 700, { token, startedAt: at - 1 }),
    ...voted('a', -1, [0, 1, 2]),
    ...voted('b', at - 0.5, [2, 3, 4]),
  ];
  const beside = (at: number, token: number) => [...alone(at, token), clocksMoved(10, 15, [2])];

  it('two may overlap for so long, and no longer', () => {
    expect(brokenRules(beside(60, 6), { overlapMs })).toEqual([]);
    expect(brokenRules(beside(59, 6), { overlapMs })).toEqual(['overlapping-validity']);
    expect(measure(beside(60, 6), { overlapMs }).longestOverlapMs).toBe(440);
  });

  it('to one holder, beside several others one after the other, for as long in all', () => {
    const limits = { overlapMs, overlaps: 1 };
    const besideTwo = (until: number) => [
      ...held('a', 0, until, { token: 5 }),
      ...held('b', 60, 100, { token: 6, startedAt: 59 }),
      ...held('c', 110, 700, { token: 7, startedAt: 109 }),
      ...voted('a', -1, [0, 1, 2]),
      ...voted('b', 59.5, [2, 3, 4]),
      ...voted('c', 109.5, [2, 3, 4]),
      clocksMoved(10, 15, [2]),
    ];
    expect(brokenRules(besideTwo(500), limits)).toEqual([]);
    expect(brokenRules(besideTwo(501), limits)).toEqual(['overlapping-validity']);
  });

  const messages = (events: CampaignEvent[]): string[] =>
    judge([...alone(60, 6), ...events], { overlapMs }).violations.map(({ message }) => message);

  it.each<[string, CampaignEvent[]]>([
    ['its clock moved', [clocksMoved(59, 70, [2])]],
    [
      'its clock moved, and the others voted for the second when the first was notified',
      [clocksMoved(10, 15, [2]), ...voted('b', 500.5, [0, 1])],
    ],
    ['the ttl was over', [...voted('a', -1_500, [4]), clocksMoved(10, 15, [2])]],
  ])('if the server that voted for both forgot in between: %s', (_, events) => {
    expect(messages(events)).toEqual([]);
  });

  it.each<[string, CampaignEvent[], number]>([
    ['no clock moved', [], 2],
    ['that of another server moved', [clocksMoved(10, 15, [3])], 2],
    ['its clock moved before', [clocksMoved(-30, -10, [2])], 2],
    ['its clock moved after', [clocksMoved(61, 70, [2])], 2],
    ['another one voted for both', [clocksMoved(10, 15, [2]), ...voted('b', 59.5, [1])], 1],
    [
      'one that voted for the second then voted for the first again',
      [clocksMoved(10, 15, [2]), ...voted('a', 70, [3])],
      3,
    ],
  ])('not if a server voted for both: %s', (_, events, node) => {
    const reason = `; server ${node} voted for both, and its clock did not move in between`;
    expect(messages(events)).toEqual([expect.stringContaining(reason)]);
  });

  it('only where a quorum voted for each', () => {
    const events = beside(60, 6).filter((event) => event.type !== 'voted' || event.node < 4);
    const [broken] = judge(events, { overlapMs }).violations;
    expect(broken?.message).toMatch(/; only servers 2,3 voted for b$/);
  });

  it('and so may a holder with a bare quorum where those of a minority jump, but not one after the other', () => {
    const again = [
      ...held('c', 690, 800, { token: 7, keys: ['seat'] }),
      ...voted('c', 689.5, [0, 1, 2]),
      clocksMoved(600, 610, [2]),
    ];
    const both = { overlapMs, overlaps: 1 };
    expect(brokenRules(beside(60, 6), both)).toEqual([]);
    expect(brokenRules([...beside(60, 6), ...again], { overlapMs })).toEqual([]);
    const rules = brokenRules([...beside(60, 6), ...again], both);
    expect(rules).toEqual(['fenced-mutex', 'overlapping-validity']);
  });

  it.each<[string, CampaignEvent[], string]>([
    ['no token twice', beside(60, 5), 'duplicate-token'],
    ['tokens grow', beside(60, 4), 'decreasing-token'],
    ['losses are noticed in time', [granted('a', 0), lost('a', 1_089)], 'late-loss'],
    ['no caller gets what is over', [granted('a', 0, { validUntil: -1 })], 'expired-grant'],
    [
      'no holder works outside its validity',
      [...held('a', 0, 10), { type: 'step', process: 'process-a', holder: 'a', at: 11 }],
      'step-outside-validity',
    ],
    [
      'no stale write is taken',
      [
        ...held('a', 0, 90),
        ...held('b', 20, 100, { token: 2 }),
        ...voted('a', -1, [0, 1, 2]),
        ...voted('b', 19.5, [2, 3, 4]),
        clocksMoved(10, 15, [2]),
        access('read', 'b', 21, 0, { token: 2 }),
        access('write', 'a', 22, 1),
      ],
      'stale-write-accepted',
    ],
  ])('still %s', (_, events, rule) => {
    expect(brokenRules(events, { overlapMs })).toEqual([rule]);
  });
});

describe('a problem', () => {
  it.each<ProblemEvent['kind']>([
    'raw-error',
    'unhandled-rejection',
    'uncaught-exception',
    'does-not-exit',
    'ended-by-itself',
    'leaked-key',
    'broken-promise',
  ])('is a violation: %s', (kind) => {
    const event: ProblemEvent = { type: 'problem', process: 'p', at: 7, kind, message: 'words' };
    expect(judge([event]).violations).toEqual([
      { rule: kind, process: 'p', at: 7, message: 'p: words' },
    ]);
  });
});

describe('a run proves nothing', () => {
  const broken = (events: readonly CampaignEvent[]) =>
    checkRun(events, runLimits()).violations.map(({ rule, message }) => `${rule}: ${message}`);
  it('but one in which something happened', () => {
    expect(broken(ELSEWHERE)).toEqual([]);
    expect(broken([...ELSEWHERE, outage(0, 500)])).toEqual([]);
  });

  it('without events', () => {
    expect(broken([])).toHaveLength(3);
  });

  it('without a grant while a quorum was healthy', () => {
    const demand = waiter('w', 5_000, 5_010);
    const none = /^nothing-happened: There was no grant while/;
    expect(broken([...ELSEWHERE, outage(-60, -10), ...demand])).toEqual([
      expect.stringMatching(none),
    ]);
    const withoutGrant = ELSEWHERE.filter(({ type }) => type === 'mark');
    const early = [granted('early', -200), released('early', -190)];
    expect(broken([...withoutGrant, ...early, ...demand])).toEqual([
      expect.stringMatching(none),
      expect.stringContaining('no write that the fenced view accepted'),
    ]);
  });

  it('without time in which anything was promised', () => {
    const unmeasured = ELSEWHERE.filter(({ type }) => type !== 'mark');
    const none = [
      expect.stringContaining('nothing about idle time'),
      expect.stringContaining('no time that was measured with a healthy quorum'),
    ];
    expect(broken(unmeasured)).toEqual(none);
    expect(broken([...ELSEWHERE, outage(-100, 20_000)])).toEqual(none);
  });

  it('about idle time without a key that was free and asked for', () => {
    const none = [expect.stringContaining('nothing about idle time')];
    const askedFor = ELSEWHERE.filter(({ type }) => type !== 'asked');
    expect(broken(askedFor)).toEqual(none);
    expect(broken([...ELSEWHERE, stalled('process-elsewhere', -60, -49)])).toEqual(none);
    const other = waiter('v', -60, -40, { keys: ['elsewhere'] });
    const excused = [...ELSEWHERE, ...other, stalled('process-v', -95, -40)];
    expect(broken(excused)).toEqual(none);
    expect(checkRun(excused, runLimits()).measures.excusedIdleShare).toBe(1);
    expect(checkRun(askedFor, runLimits({ idleMs: undefined })).violations).toEqual([]);
  });

  it('without a write on the fenced view', () => {
    const unfenced = ELSEWHERE.map((event) =>
      event.type === 'access' ? { ...event, view: 'unfenced' as const } : event,
    );
    const reads = ELSEWHERE.filter(
      (event) => !(event.type === 'access' && event.operation === 'write'),
    );
    for (const events of [unfenced, reads]) {
      expect(broken(events)).toEqual([expect.stringContaining('no write')]);
    }
  });
});

describe('violations', () => {
  it('are in order of time', () => {
    const events = [
      ...held('b', 900, 910, { token: 3 }),
      ...held('c', 905, 920, { token: 4 }),
      access('write', 'b', 500, 7),
      closed('process-b', 1_000, 9_000),
    ];
    const times = judge(events).violations.map(({ at }) => at!);
    expect(times.length).toBeGreaterThan(3);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });
});

describe('measures of locks', () => {
  it('count grants, extensions and losses', () => {
    const events: CampaignEvent[] = [
      granted('a', 0),
      { type: 'extended', process: 'process-a', holder: 'a', at: 300, validUntil: 1_300 },
      { type: 'extended', process: 'process-a', holder: 'a', at: 600, validUntil: 1_600 },
      lost('a', 1_590),
    ];
    expect(measure(events)).toMatchObject({ grants: 2, extensions: 2, losses: 1 });
  });
});
