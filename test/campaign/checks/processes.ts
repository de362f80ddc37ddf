import type { CampaignEvent, MarkEvent } from '../campaign-event.ts';
import { excusedUntil } from '../../history/loss-check.ts';
import type { StalledEvent } from '../../history/lock-history.ts';
import { touching, union, type Interval, type Timeline } from './intervals.ts';

/** Facts of the history about one start of a process. */
export interface ObservedProcess {
  /** When it did not run: by its own account, or because it was stopped or killed. Ends with infinity when it was killed. */
  readonly downtime: Timeline;
  /** Time at which it certainly ran; infinity when it was killed before. */
  readonly startedAt: number;
  /** The last time it wrote something down. */
  readonly lastSeenAt: number;
  /** When it ran for the last time before it was killed or stopped for good; infinity when it was neither. */
  readonly ranUntil: number;
}

type WorkerMark = Extract<MarkEvent, { worker: string }>;

/** A blocked process stops running at most this long after it was asked to. */
const BLOCK_BEGINS_WITHIN_MS = 500;

/** Part that the names of all starts of a worker have in common: `worker-2` of `worker-2/0`. */
export function placeOf(process: string): string {
  return process.split('/')[0]!;
}

/** Processes of the history, by name. */
export function observeProcesses(events: readonly CampaignEvent[]): Map<string, ObservedProcess> {
  const notes = new Map<string, Notes>();
  const notesOf = (process: string): Notes => {
    let own = notes.get(process);
    if (!own) {
      own = { stalls: [], marks: [], startedAt: Infinity, lastSeenAt: -Infinity };
      notes.set(process, own);
    }
    return own;
  };
  for (const event of events) {
    if (event.type === 'mark') {
      if (!('worker' in event)) continue;
      const own = notesOf(event.worker);
      if (event.mark === 'worker-started') own.startedAt = Math.min(own.startedAt, event.at);
      else own.marks.push(event);
      continue;
    }
    const own = notesOf(event.process);
    if (event.type === 'stalled') own.stalls.push(event);
    // A problem may be written down by others, about a process that is dead.
    if (event.type === 'problem') continue;
    const at = event.type === 'stalled' ? (event.killed ? event.from : event.to) : event.at;
    own.startedAt = Math.min(own.startedAt, at);
    own.lastSeenAt = Math.max(own.lastSeenAt, at);
  }
  return new Map(
    Array.from(notes, ([process, own]) => {
      const { startedAt, lastSeenAt } = own;
      const downtime = downtimeOf(own);
      return [process, { downtime, startedAt, lastSeenAt, ranUntil: ranUntil(own, downtime) }];
    }),
  );
}

/**
 * Time from `at`, when something was due, to when it happened, less the time in which the process did not run; stalls in a
 * row count together as long as they are not further apart than `toleranceMs`.
 */
export function lateBy(
  { downtime }: ObservedProcess,
  at: number,
  happenedAt: number,
  toleranceMs: number,
): number {
  const stalls = touching(downtime, at, happenedAt);
  return Math.max(0, happenedAt - (excusedUntil(at, stalls, toleranceMs) - toleranceMs));
}

/** Stalls by which an answer may come too late, also several in a row: shorter ones are lost in the slack of every promise. */
export function longStalls(downtime: Timeline, nodeTimeoutMs: number): Timeline {
  const halfMs = nodeTimeoutMs / 2;
  return union(downtime, halfMs / 2).filter(({ from, to }) => to - from >= halfMs);
}

/** The moment from which on the process ran for `durationMs` up to `at`. */
export function ranSince({ downtime }: ObservedProcess, at: number, durationMs: number): number {
  let from = at - durationMs;
  for (const stall of downtime.toReversed()) {
    if (stall.to > from && stall.from < at) from -= Math.min(stall.to, at) - stall.from;
  }
  return from;
}

/** When something due at `at` must have happened; infinity when the process was killed before. */
export function dueBy({ downtime }: ObservedProcess, at: number, toleranceMs: number): number {
  return excusedUntil(at, touching(downtime, at, Infinity), toleranceMs);
}

interface Notes {
  readonly stalls: StalledEvent[];
  readonly marks: WorkerMark[];
  startedAt: number;
  lastSeenAt: number;
}

/** Process may have run also in the middle of its last stall, for a moment without a tick, of which it wrote something down. */
function ranUntil({ marks, lastSeenAt }: Notes, downtime: Timeline): number {
  const last = downtime.at(-1);
  if (last?.to !== Infinity) return Infinity;
  return Math.max(last.from, Math.min(lastSeenAt, killedAt(marks)));
}

function killedAt(marks: readonly WorkerMark[]): number {
  return marks.find(({ mark }) => mark === 'worker-killed')?.at ?? Infinity;
}

function downtimeOf({ stalls, marks, lastSeenAt }: Notes): Timeline {
  const spans: Interval[] = stalls.map(({ from, to }) => ({ from, to }));
  const endedAt = killedAt(marks);
  let stoppedAt = Infinity;
  for (const { mark, at } of [...marks].sort((a, b) => a.at - b.at)) {
    if (mark === 'worker-stopped') stoppedAt = Math.min(stoppedAt, at);
    if (mark === 'worker-blocked') spans.push({ from: at, to: blockedUntil(at) });
    if (mark !== 'worker-resumed') continue;
    spans.push({ from: stoppedAt, to: at });
    stoppedAt = Infinity;
  }
  // Process that was stopped and not resumed is over from there on, also when it was killed only later.
  spans.push({ from: Math.min(stoppedAt, endedAt), to: Infinity });
  return union(spans);

  /** End of a block by the account of the process afterwards. Killed while it was blocked, it gave none. */
  function blockedUntil(at: number): number {
    const latestBegin = at + BLOCK_BEGINS_WITHIN_MS;
    const block = stalls.find(({ from, to }) => to > at && from <= latestBegin);
    if (block) return block.to;
    return lastSeenAt <= latestBegin ? endedAt : at;
  }
}
