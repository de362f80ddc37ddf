import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent, ProblemEvent } from '../campaign-event.ts';
import { checkRun } from './check-run.ts';
import { runLimits } from './run-limits.ts';
import {
  access,
  answered,
  asked,
  brokenRules,
  closed,
  ELSEWHERE,
  granted,
  held,
  judge,
  lost,
  mark,
  measure,
  released,
  stalled,
  waiter,
} from './written-events.ts';

describe('the history of locks', () => {
  it.each<[string, CampaignEvent[], string[]]>([
    ['holders one after the other', [...held('a', 0, 10), ...held('b', 10, 20, { token: 2 })], []],
    [
      'two at once',
      [...held('a', 0, 10), ...held('b', 9, 20, { token: 2 })],
      ['fenced-mutex', 'overlapping-validity', 'reentrant-fenced-mutex'],
    ],
    [
      'one token twice',
      [...held('a', 0, 10), ...held('b', 20, 30)],
      ['duplicate-token', 'fenced-mutex', 'reentrant-fenced-mutex'],
    ],
    ['a loss that was told late', [granted('a', 0), lost('a', 1_088.1)], ['late-loss']],
    ['a loss that was told in time', [granted('a', 0), lost('a', 1_088)], []],
    [
      'a loss that was told late because the process did not run',
      [granted('a', 0), lost('a', 3_000), stalled('process-a', 900, 2_990)],
      [],
    ],
  ])('is checked: %s', (_, events, rules) => {
    expect(brokenRules(events)).toEqual(rules);
  });

  it('excuses a process that was killed before it could tell that it had been stopped', () => {
    const stop = mark(900, { mark: 'worker-stopped', worker: 'process-a' });
    const resume = mark(2_990, { mark: 'worker-resumed', worker: 'process-a' });
    const kill = mark(3_001, { mark: 'worker-killed', worker: 'process-a' });
    const events = [granted('a', 0), lost('a', 3_000), kill];
    expect(brokenRules([...events, stop, resume])).toEqual([]);
    expect(brokenRules(events)).toEqual(['late-loss']);
  });

  it('does not accuse a process of the silence in which it died', () => {
    const stop = mark(900, { mark: 'worker-stopped', worker: 'process-a' });
    const resume = mark(2_990, { mark: 'worker-resumed', worker: 'process-a' });
    const kill = mark(5_000, { mark: 'worker-killed', worker: 'process-a' });
    expect(brokenRules([granted('a', 0), stop, resume])).toEqual([]);
    expect(brokenRules([granted('a', 0), kill])).toEqual([]);
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
  const beside = (at: number, token: number) => [
    ...held('a', 0, 500, { token: 5 }),
    ...held('b', at, 700, { token, startedAt: at - 1 }),
  ];

  it('two may overlap for so long, and no longer', () => {
    expect(brokenRules(beside(60, 6), { overlapMs })).toEqual([]);
    expect(brokenRules(beside(59, 6), { overlapMs })).toEqual(['overlapping-validity']);
    expect(measure(beside(60, 6), { overlapMs }).longestOverlapMs).toBe(440);
  });

  it.each<[string, CampaignEvent[], string]>([
    ['no token twice', beside(60, 5), 'duplicate-token'],
    ['tokens grow', beside(60, 4), 'decreasing-token'],
    ['nobody is told late', [granted('a', 0), lost('a', 1_089)], 'late-loss'],
    ['nobody gets what is over', [granted('a', 0, { validUntil: -1 })], 'expired-grant'],
    [
      'nobody works outside its validity',
      [...held('a', 0, 10), { type: 'step', process: 'process-a', holder: 'a', at: 11 }],
      'step-outside-validity',
    ],
    [
      'no stale write is taken',
      [
        ...held('a', 0, 90),
        ...held('b', 20, 100, { token: 2 }),
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
  ])('is a violation: %s', (kind) => {
    const event: ProblemEvent = { type: 'problem', process: 'p', at: 7, kind, message: 'words' };
    expect(judge([event]).violations).toEqual([
      { rule: kind, process: 'p', at: 7, message: 'p: words' },
    ]);
  });
});

describe('a refusal', () => {
  const refused = (outcome: string, waitMs = 1_000) => [
    asked('a', 0, { waitMs }),
    answered('a', 10, { outcome }),
  ];

  it.each(['LOCK_BUSY', 'QUORUM_UNAVAILABLE', 'REDLOCK_CLOSED'])('may be %s', (code) => {
    expect(brokenRules(refused(code))).toEqual([]);
  });

  it.each(['REDLOCK_CONFIG', 'FENCED_USAGE', 'STALE_TOKEN', 'LOCK_LOST'])(
    'may be %s only where every code of the package may occur',
    (code) => {
      expect(brokenRules(refused(code))).toEqual(['unexpected-refusal']);
      expect(brokenRules(refused(code), { expectedRefusals: undefined })).toEqual([]);
    },
  );

  it.each(['ECONNREFUSED', '', 'toString', 'undefined'])('may never be %j', (code) => {
    const limits = { expectedRefusals: new Set([code]) };
    expect(brokenRules(refused(code), limits)).toEqual(['unexpected-refusal']);
    expect(brokenRules(refused(code), { expectedRefusals: undefined })).toEqual([
      'unexpected-refusal',
    ]);
  });

  it('may be what the schedule allows', () => {
    const limits = { expectedRefusals: new Set(['LOCK_BUSY']) };
    expect(brokenRules(refused('LOCK_BUSY'), limits)).toEqual([]);
    expect(brokenRules(refused('QUORUM_UNAVAILABLE'), limits)).toEqual(['unexpected-refusal']);
    expect(brokenRules(refused('QUORUM_UNAVAILABLE', 999), limits)).toEqual([]);
    expect(brokenRules(refused('LOCK_LOST', 999), limits)).toEqual(['unexpected-refusal']);
    expect(judge(refused('QUORUM_UNAVAILABLE'), limits).violations[0]).toMatchObject({
      key: 'seat',
      process: 'process-a',
      at: 10,
    });
  });

  it('may be an outage for whoever did not run and so could not hear the servers', () => {
    const limits = { expectedRefusals: new Set(['LOCK_BUSY']) };
    const rules = (code: string, ...more: CampaignEvent[]) =>
      brokenRules([...refused(code), ...more], limits);
    for (const name of ['process-a', 'campaign']) {
      expect(rules('QUORUM_UNAVAILABLE', stalled(name, -30, 0))).toEqual([]);
      expect(rules('LOCK_LOST', stalled(name, -30, 0))).toEqual(['unexpected-refusal']);
      // Longer ago than one node timeout.
      expect(rules('QUORUM_UNAVAILABLE', stalled(name, -130, -95))).toEqual(['unexpected-refusal']);
    }
    expect(rules('QUORUM_UNAVAILABLE', stalled('process-b', -30, 0))).toEqual([
      'unexpected-refusal',
    ]);
  });

  it('may be an outage of new servers, which may not vote before the run is measured', () => {
    const limits = runLimits({ expectedRefusals: new Set(['LOCK_BUSY']) });
    const from = (at: number): string[] =>
      checkRun([...refused('QUORUM_UNAVAILABLE'), mark(at, { mark: 'measuring' })], limits)
        .violations.map(({ rule }) => rule)
        .filter((rule) => rule === 'unexpected-refusal');
    expect(from(1)).toEqual([]);
    expect(from(-1)).toEqual(['unexpected-refusal']);
  });

  it('is counted by its code, and a grant is none', () => {
    const events = [
      ...refused('LOCK_BUSY'),
      asked('b', 20),
      answered('b', 21, { outcome: 'QUORUM_UNAVAILABLE' }),
      asked('c', 30),
      answered('c', 31, { outcome: 'QUORUM_UNAVAILABLE' }),
      asked('d', 40),
      answered('d', 41),
    ];
    expect(measure(events).refusals).toEqual({ LOCK_BUSY: 1, QUORUM_UNAVAILABLE: 2 });
  });
});

describe('a run proves nothing', () => {
  const broken = (events: readonly CampaignEvent[]) =>
    checkRun(events, runLimits()).violations.map(({ rule, message }) => `${rule}: ${message}`);
  const outage = (from: number, to: number) => [
    mark(from, { mark: 'quorum-lost' }),
    mark(to, { mark: 'quorum-healed', guardMs: 0 }),
  ];

  it('but one in which something happened', () => {
    expect(broken(ELSEWHERE)).toEqual([]);
    expect(broken([...ELSEWHERE, ...outage(0, 500)])).toEqual([]);
  });

  it('without events', () => {
    expect(broken([])).toHaveLength(3);
  });

  it('without a grant while a quorum was healthy', () => {
    const demand = waiter('w', 5_000, 5_010);
    const none = /^nothing-happened: There was no grant while/;
    expect(broken([...ELSEWHERE, ...outage(-60, -10), ...demand])).toEqual([
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
    expect(broken([...ELSEWHERE, ...outage(-100, 20_000)])).toEqual(none);
  });

  it('about idle time without a key that was free and asked for', () => {
    const none = [expect.stringContaining('nothing about idle time')];
    const askedFor = ELSEWHERE.filter(({ type }) => type !== 'asked');
    expect(broken(askedFor)).toEqual(none);
    expect(broken([...ELSEWHERE, stalled('process-elsewhere', -60, -49)])).toEqual(none);
    const other = waiter('v', -60, -40, { keys: ['elsewhere'] });
    const excused = [...ELSEWHERE, ...other, stalled('process-v', -60, -40)];
    expect(broken(excused)).toEqual([]);
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
