import { expect, it } from '@jest/globals';
import type { CampaignEvent } from '../campaign-event.ts';
import { checkRun } from './check-run.ts';
import type { EventOf } from './run-facts.ts';
import { runLimits } from './run-limits.ts';

const { callOverrunMs, nodeTimeoutMs, releaseMs, closeMs } = runLimits();
const process = 'process-a';
const holder = { process, holder: 'a' };
const next = { process, holder: 'b' };

/** An acquire, from its question to its answer. */
function call(
  name: string,
  [from, to]: [from: number, to?: number],
  waitMs: number,
  outcome: EventOf<'answered'>['outcome'],
): CampaignEvent[] {
  const asked = { type: 'asked', process, call: name, at: from, keys: ['seat'], waitMs } as const;
  if (to === undefined) return [asked];
  return [asked, { type: 'answered', process, call: name, at: to, outcome }];
}

function access(
  operation: 'read' | 'write',
  at: number,
  value: number,
  event: Partial<EventOf<'access'>> = {},
): CampaignEvent {
  const what = { key: 'seat', holder: 'a', token: 1, view: 'fenced', accepted: true } as const;
  return { type: 'access', process: 'resource', operation, at, value, ...what, ...event };
}

function granted(who: typeof holder, token: number, at: number, validMs = 988): CampaignEvent {
  const when = { startedAt: at - 2, at, validUntil: at + validMs };
  return { type: 'granted', ...who, keys: ['seat'], token, held: true, ...when };
}

const HELD: readonly CampaignEvent[] = [
  { type: 'mark', process: 'campaign', at: -100, mark: 'measuring' },
  ...call('a', [-51, -50], 10_000, 'granted'),
  granted(holder, 1, -50),
  access('read', -49, 0),
  access('write', -48, 1),
  { type: 'released', ...holder, at: -47 },
  { type: 'mark', process: 'campaign', at: 20_000, mark: 'measured' },
];
/** A run that is right, and in which enough happens. */
const RIGHT: readonly CampaignEvent[] = [...HELD, { type: 'release-answered', ...holder, at: -46 }];
const longestMs = nodeTimeoutMs + callOverrunMs;

/** Rules that no control of the campaign and no mutant of the simulation breaks for certain, and a run that does. */
const WRONG: Record<string, readonly CampaignEvent[]> = {
  'access-without-grant': [...RIGHT, access('read', -30, 1, { holder: 'no one' })],
  'unexpected-refusal': [...RIGHT, ...call('b', [10, 11], 10_000, 'LOCK_LOST')],
  'acquire-over-budget': [...RIGHT, ...call('b', [10, 11 + longestMs], 0, 'LOCK_BUSY')],
  'call-never-ended': [
    ...RIGHT,
    ...call('b', [10], 0, 'LOCK_BUSY'),
    ...call('c', [9_000, 9_001], 0, 'LOCK_BUSY'),
  ],
  'release-over-budget': [...HELD, { type: 'release-answered', ...holder, at: -46 + releaseMs }],
  'close-over-budget': [...RIGHT, { type: 'closed', process, from: 10, at: 11 + closeMs }],
  'extended-after-end': [...RIGHT, { type: 'extended', ...holder, at: -40, validUntil: 900 }],
  'step-outside-validity': [...RIGHT, { type: 'step', ...holder, at: -40 }],
  'expired-grant': [...RIGHT, granted(next, 2, 0, -1)],
  'late-loss': [
    ...RIGHT,
    granted(next, 2, 0),
    { type: 'lost', ...next, at: 1_200, reason: 'expired' },
  ],
  'untold-loss': [
    ...RIGHT,
    granted(next, 2, 0),
    { type: 'released', ...next, at: 1_200 },
    { type: 'release-answered', ...next, at: 1_201 },
  ],
  'lost-update': [...RIGHT, access('write', -47.5, 3)],
  'legitimate-holder-refused': [...RIGHT, access('read', -48.5, 0, { accepted: false })],
  'stale-write-accepted': [
    ...RIGHT,
    granted(next, 2, 0),
    { type: 'released', ...next, at: 20 },
    { type: 'release-answered', ...next, at: 21 },
    access('read', 1, 1, { holder: 'b', token: 2 }),
    access('write', 10, 2),
  ],
  'nothing-happened': [],
};

it('a run that is right breaks no rule', () => {
  expect(checkRun(RIGHT, runLimits()).violations).toEqual([]);
});

it.each(Object.entries(WRONG))('%s is found', (rule, events) => {
  const rules = checkRun(events, runLimits()).violations.map((violation) => violation.rule);
  expect([...new Set(rules)]).toEqual([rule]);
});
