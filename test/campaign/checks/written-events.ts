import type { GrantedEvent } from '../../history/lock-history.ts';
import type { CampaignEvent, CutEvent, Mark, NodeEvent, ProblemEvent } from '../campaign-event.ts';
import { checkRun } from './check-run.ts';
import type { EventOf } from './run-facts.ts';
import { runLimits, type RunLimits } from './run-limits.ts';
import type { RunMeasures, RunVerdict } from './run-verdict.ts';

// Events for histories that are written by hand. Every holder and every call lives in a process of its own, `process-<name>`,
// unless said otherwise; the key is 'seat', the token 1, and times are near 0.

type Changes<Type extends CampaignEvent['type']> = Partial<EventOf<Type>>;

/** A grant at `at`, valid for 988 ms from then. */
export function granted(holder: string, at: number, event: Changes<'granted'> = {}): GrantedEvent {
  const who = { process: `process-${holder}`, holder, keys: ['seat'], token: 1 };
  const when = { startedAt: at - 2, at, validUntil: at + 988 };
  return { type: 'granted', ...who, ...when, held: true, ...event };
}

/** A grant at `at` of a lock that was over before, from `validUntil` on. */
export function grantedTooLate(holder: string, at: number, validUntil: number): GrantedEvent {
  return granted(holder, at, { startedAt: 100, validUntil, held: false, token: 1.5 });
}

export function released(
  holder: string,
  at: number,
  process = `process-${holder}`,
): EventOf<'released'> {
  return { type: 'released', process, holder, at };
}

export function releaseAnswered(
  holder: string,
  at: number,
  process = `process-${holder}`,
): EventOf<'release-answered'> {
  return { type: 'release-answered', process, holder, at };
}

export function lost(holder: string, at: number): EventOf<'lost'> {
  return { type: 'lost', process: `process-${holder}`, holder, at, reason: 'expired' };
}

/** A grant at `at`, released at `until`. */
export function held(
  holder: string,
  at: number,
  until: number,
  event: Changes<'granted'> = {},
): CampaignEvent[] {
  return [
    granted(holder, at, event),
    released(holder, until, event.process),
    releaseAnswered(holder, until + 1, event.process),
  ];
}

export function stalled(
  process: string,
  from: number,
  to: number,
  killed?: true,
): EventOf<'stalled'> {
  return { type: 'stalled', process, from, to, ...(killed && { killed }) };
}

/** Ready to wait for ten seconds. */
export function asked(call: string, at: number, event: Changes<'asked'> = {}): EventOf<'asked'> {
  const what = { call, keys: ['seat'], waitMs: 10_000 };
  return { type: 'asked', process: `process-${call}`, at, ...what, ...event };
}

export function answered(
  call: string,
  at: number,
  event: Changes<'answered'> = {},
): EventOf<'answered'> {
  return { type: 'answered', process: `process-${call}`, call, at, outcome: 'granted', ...event };
}

/** Somebody who asks for 'seat' from `from` to `to`, and gets nothing. */
export function waiter(
  call: string,
  from: number,
  to: number,
  event: Changes<'asked'> = {},
): CampaignEvent[] {
  const { process = `process-${call}` } = event;
  return [
    asked(call, from, { waitMs: to - from, ...event }),
    answered(call, to, { process, outcome: 'LOCK_BUSY' }),
  ];
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
  operation: 'read' | 'write',
  holder: string,
  at: number,
  value: number,
  event: Changes<'access'> = {},
): EventOf<'access'> {
  const what = { view: 'fenced', operation, key: 'seat', value, accepted: true } as const;
  return { type: 'access', process: 'resource', at, holder, token: 1, ...what, ...event };
}

/** These servers say yes to `holder` at `at`. */
export function voted(holder: string, at: number, nodes: readonly number[]): EventOf<'voted'>[] {
  const what = { process: `process-${holder}`, holder, askedAt: at - 1, at };
  return nodes.map((node) => ({ type: 'voted', ...what, node }));
}

export function clocksMoved(from: number, at: number, nodes: readonly number[]): EventOf<'mark'> {
  return mark(at, { mark: 'clocks-moved', nodes, from });
}

export function problem(kind: ProblemEvent['kind'], at: number): ProblemEvent {
  return { type: 'problem', process: 'process-a', at, kind, message: 'the words of the problem' };
}

export function closed(process: string, from: number, at: number): EventOf<'closed'> {
  return { type: 'closed', process, from, at };
}

/** Three of five servers don't work. */
export function outage(from: number, at: number, event: Changes<'fault'> = {}): EventOf<'fault'> {
  const what = { what: 'harmed', nodes: [0, 1, 2] };
  return { type: 'fault', process: 'campaign', from, at, ...what, ...event };
}

/** The connections of `worker` to three servers are reset. */
export function cuts(worker: string, at: number, event: Changes<'cut'> = {}): CutEvent[] {
  const what = { kind: 'commands', worker, from: at, at } as const;
  return [0, 1, 2].map((node) => ({ type: 'cut', process: 'network', node, ...what, ...event }));
}

/** `process-a` reports a change of server 0. */
export function nodeReport(at: number, change: NodeEvent['change']): NodeEvent {
  return { type: 'node', process: 'process-a', at, node: 0, change };
}

export function mark(at: number, details: Mark): EventOf<'mark'> {
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

type Limits = Partial<RunLimits>;

/** Judges `events`, with something right elsewhere. */
export function judge(events: readonly CampaignEvent[], limits: Limits = {}): RunVerdict {
  return checkRun([...ELSEWHERE, ...events], runLimits(limits));
}

/** The rules that `events` break, each once. */
export function brokenRules(events: readonly CampaignEvent[], limits: Limits = {}): string[] {
  return [...new Set(judge(events, limits).violations.map(({ rule }) => rule))].sort();
}

/** What is measured of `events`. */
export function measure(events: readonly CampaignEvent[], limits: Limits = {}): RunMeasures {
  return judge(events, limits).measures;
}
