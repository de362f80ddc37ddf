import type { GrantedEvent, LockHistoryEvent } from '../../history/lock-history.ts';
import type {
  AccessEvent,
  AnsweredEvent,
  AskedEvent,
  CampaignEvent,
  ClosedEvent,
  MarkEvent,
  ProblemEvent,
  ReleaseAnsweredEvent,
} from '../campaign-event.ts';
import { checkRun } from './check-run.ts';
import { runLimits, type RunLimits } from './run-limits.ts';
import type { RunMeasures, RunVerdict } from './run-verdict.ts';

// Events for histories that are written by hand. Every holder and every call lives in a process of its own, `process-<name>`,
// unless said otherwise; the key is 'seat', the token 1, and times are near 0.

/** A grant at `at`, valid for 988 ms from then. */
export function granted(
  holder: string,
  at: number,
  event: Partial<GrantedEvent> = {},
): GrantedEvent {
  return {
    type: 'granted',
    process: `process-${holder}`,
    holder,
    keys: ['seat'],
    token: 1,
    startedAt: at - 2,
    at,
    validUntil: at + 988,
    held: true,
    ...event,
  };
}

export function released(holder: string, at: number, process?: string): LockHistoryEvent {
  return { type: 'released', process: process ?? `process-${holder}`, holder, at };
}

export function releaseAnswered(
  holder: string,
  at: number,
  process?: string,
): ReleaseAnsweredEvent {
  return { type: 'release-answered', process: process ?? `process-${holder}`, holder, at };
}

export function lost(holder: string, at: number): LockHistoryEvent {
  return { type: 'lost', process: `process-${holder}`, holder, at, reason: 'expired' };
}

/** A grant at `at`, released at `until`. */
export function held(
  holder: string,
  at: number,
  until: number,
  event: Partial<GrantedEvent> = {},
): CampaignEvent[] {
  return [
    granted(holder, at, event),
    released(holder, until, event.process),
    releaseAnswered(holder, until + 1, event.process),
  ];
}

export function stalled(process: string, from: number, to: number): LockHistoryEvent {
  return { type: 'stalled', process, from, to };
}

/** Ready to wait for ten seconds. */
export function asked(call: string, at: number, event: Partial<AskedEvent> = {}): AskedEvent {
  return {
    type: 'asked',
    process: `process-${call}`,
    call,
    keys: ['seat'],
    at,
    waitMs: 10_000,
    ...event,
  };
}

export function answered(
  call: string,
  at: number,
  event: Partial<AnsweredEvent> = {},
): AnsweredEvent {
  return { type: 'answered', process: `process-${call}`, call, at, outcome: 'granted', ...event };
}

/** Somebody who asks for 'seat' from `from` to `to`, and gets nothing. */
export function waiter(
  call: string,
  from: number,
  to: number,
  event: Partial<AskedEvent> = {},
): CampaignEvent[] {
  const { process = `process-${call}` } = event;
  return [asked(call, from, event), answered(call, to, { process, outcome: 'LOCK_BUSY' })];
}

/** 'seat' is held by a from 0 to 1 000, and so long later by b, up to 6 000. */
export function withGap(gapMs: number): CampaignEvent[] {
  return [
    ...held('a', 0, 1_000, { validUntil: 1_100 }),
    ...held('b', 1_000 + gapMs, 6_000, { token: 2, validUntil: 6_000 }),
  ];
}

/** Somebody who asks for 'seat' all that time. */
export const WAITER: readonly CampaignEvent[] = waiter('w', 10, 6_000);

/** An access to 'seat' on the fenced view that was accepted. */
export function access(
  operation: AccessEvent['operation'],
  holder: string,
  at: number,
  value: number,
  event: Partial<AccessEvent> = {},
): AccessEvent {
  return {
    type: 'access',
    process: 'resource',
    view: 'fenced',
    operation,
    key: 'seat',
    holder,
    token: 1,
    at,
    accepted: true,
    value,
    ...event,
  };
}

export function problem(kind: ProblemEvent['kind'], at: number): ProblemEvent {
  return { type: 'problem', process: 'process-a', at, kind, message: 'the words of the problem' };
}

export function closed(process: string, from: number, at: number): ClosedEvent {
  return { type: 'closed', process, from, at };
}

type MarkDetails = MarkEvent extends infer Mark
  ? Mark extends MarkEvent
    ? Omit<Mark, 'type' | 'process' | 'at'>
    : never
  : never;

export function mark(at: number, details: MarkDetails): MarkEvent {
  return { type: 'mark', process: 'campaign', at, ...details };
}

export const MEASURED_FROM = -100;
export const MEASURED_UNTIL = 20_000;

/** A run in which enough happens elsewhere, and all of it is right. */
export const ELSEWHERE: readonly CampaignEvent[] = [
  mark(MEASURED_FROM, { mark: 'measuring' }),
  asked('elsewhere', -51, { keys: ['elsewhere'] }),
  granted('elsewhere', -50, { keys: ['elsewhere'] }),
  answered('elsewhere', -50),
  access('read', 'elsewhere', -49, 0, { key: 'elsewhere' }),
  access('write', 'elsewhere', -48, 1, { key: 'elsewhere' }),
  released('elsewhere', -47),
  releaseAnswered('elsewhere', -46),
  mark(MEASURED_UNTIL, { mark: 'measured' }),
];

/** Judges `events`, with something right elsewhere. */
export function judge(
  events: readonly CampaignEvent[],
  limits: Partial<RunLimits> = {},
): RunVerdict {
  return checkRun([...ELSEWHERE, ...events], runLimits(limits));
}

/** The rules that `events` break, each once. */
export function brokenRules(
  events: readonly CampaignEvent[],
  limits: Partial<RunLimits> = {},
): string[] {
  return [...new Set(judge(events, limits).violations.map(({ rule }) => rule))].sort();
}

/** What is measured of `events`. */
export function measure(
  events: readonly CampaignEvent[],
  limits: Partial<RunLimits> = {},
): RunMeasures {
  return judge(events, limits).measures;
}
